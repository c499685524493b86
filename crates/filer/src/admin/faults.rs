//! Requests on the admin socket about the faults of a volume and its power-cut copies.

use std::path::PathBuf;
use std::sync::Arc;

use nfs_proto::nfs3::Procedure;
use serde::Deserialize;
use serde_json::{Value, json};
use volume::CopyError;
use volume::faults::{FaultKind, FaultSpec};

use crate::iscsi;
use crate::luns::Operation;
use crate::nfs::export::Export;
use crate::nfs::filer::Filer;
use crate::nfs::stats;

/// The operations, for the error about an unknown operation.
pub(crate) const NAMES: &str = "fault-add, fault-list, fault-clear, power-cut-copy";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    #[serde(rename = "op")]
    _op: String,
    /// The name of the volume. It may be missing if the filer serves only one.
    #[serde(default)]
    volume: Option<String>,
    #[serde(default)]
    fault: Option<FaultSpec>,
    /// Number of the fault to clear. `None`: all faults.
    #[serde(default)]
    id: Option<u64>,
    /// The directory for a copy.
    #[serde(default)]
    to: Option<PathBuf>,
}

/// The reply to a request about faults, or why nothing was done. `None` if it is another request.
pub(crate) fn answer(filer: &Filer, op: &str, request: &Value) -> Option<Result<Value, String>> {
    let carry_out: fn(&Export, Request) -> Result<Value, String> = match op {
        "fault-add" => add,
        "fault-list" => |export, _| Ok(json!({"ok": true, "report": export.volume.faults().report()})),
        "fault-clear" => clear,
        "power-cut-copy" => copy,
        _ => return None,
    };
    let parsed = Request::deserialize(request).map_err(|error| format!("parse the request: {error}"));
    Some(parsed.and_then(|request| carry_out(&*export(filer, request.volume.as_deref())?, request)))
}

fn export(filer: &Filer, name: Option<&str>) -> Result<Arc<Export>, String> {
    let exports = filer.exports();
    let known = || exports.entries().iter().map(|entry| entry.export.name()).collect::<Vec<_>>().join(", ");
    match (name, exports.entries()) {
        (Some(name), _) => exports
            .named(name)
            .map(|entry| Arc::clone(&entry.export))
            .ok_or_else(|| format!("there is no volume {name:?}: the filer serves {}", known())),
        (None, [only]) => Ok(Arc::clone(&only.export)),
        (None, _) => Err(format!("it serves several volumes; name one with --volume: {}", known())),
    }
}

fn add(export: &Export, request: Request) -> Result<Value, String> {
    let fault = request.fault.ok_or("set a fault: the request has none")?;
    let id = export.set_fault(fault).map_err(|error| format!("set the fault: {error}"))?;
    Ok(json!({"ok": true, "id": id}))
}

impl Export {
    /// Sets a fault of any kind, logs it, and returns its number.
    ///
    /// # Errors
    /// The reason for which the fault cannot be set.
    pub fn set_fault(&self, mut fault: FaultSpec) -> Result<u64, String> {
        if fault.kind.is_of_the_wire() {
            for on in &mut fault.on {
                on.make_ascii_uppercase();
                let is_procedure = Procedure::ALL.iter().any(|procedure| stats::name(*procedure) == on.as_str());
                if !is_procedure && !Operation::ALL.iter().any(|operation| iscsi::faults::name(*operation) == on.as_str()) {
                    let kind = fault.kind.name();
                    return Err(format!(
                        "on={on}: {kind} applies to procedures of NFS version 3, such as READ, and to SCSI-READ, SCSI-WRITE, SCSI-FLUSH, SCSI-UNMAP, SCSI-OTHER"
                    ));
                }
            }
        }
        let text = fault.to_string();
        let id = self.volume.set_fault(fault).map_err(|error| error.to_string())?;
        tracing::warn!(volume = self.name(), id, fault = text, "fault set");
        Ok(id)
    }
}

fn clear(export: &Export, request: Request) -> Result<Value, String> {
    let cleared = export.volume.faults().clear(request.id);
    if let (0, Some(id)) = (cleared, request.id) {
        return Err(format!("clear fault {id}: no fault has this number"));
    }
    tracing::warn!(volume = export.name(), cleared, "faults cleared");
    Ok(json!({"ok": true, "cleared": cleared}))
}

fn copy(export: &Export, request: Request) -> Result<Value, String> {
    let to = request.to.filter(|to| to.is_absolute()).ok_or("copy the volume: name an absolute path to copy to")?;
    match export.volume.power_cut_copy(&to) {
        Ok(report) => {
            tracing::info!(volume = export.name(), to = %to.display(), objects = report.objects, "power-cut copy made");
            let (writes, names) = (report.cut.undone_writes, report.cut.undone_names);
            let (objects, bytes) = (report.objects, report.bytes);
            Ok(json!({"ok": true, "objects": objects, "bytes": bytes, "undone_writes": writes, "undone_names": names}))
        }
        Err(CopyError::NotSupported) => Err(super::NO_LOSS_LAYER.into()),
        Err(error) => {
            let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
            let fix = match &error {
                CopyError::NotEmpty { .. } => "; name an empty directory, or one to create",
                CopyError::Inside { .. } => "; name a directory outside it",
                _ => "",
            };
            Err(format!("copy the volume: {error}{cause}{fix}"))
        }
    }
}

/// The kinds of faults that are set. The counters contain them, so that a record shows that it was made under faults.
pub(crate) fn kinds(filer: &Filer) -> Vec<String> {
    let exports = filer.exports();
    let reports = exports.entries().iter().map(|entry| entry.export.volume.faults().report());
    let set = reports.flat_map(|report| report.faults).map(|status| status.fault.kind);
    let mut kinds: Vec<&str> = set.map(FaultKind::name).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.into_iter().map(str::to_owned).collect()
}
