//! COMMIT: of one file, and of several in flight together.

use crate::address::EndpointIndex;
use crate::error::Error;
use crate::file::FileHandle;
use crate::limits::SLOTS_MAX;
use crate::nfs3::client::Nfs3;
use crate::nfs3::types::{attributes_of, handle, refusal, verifier_of};
use crate::protocol::Stable;
use crate::rpc::calls::Calls;
use crate::rpc::fault::Fault;
use nfs_proto::nfs3::{self, CommitArgs, CommitResult, NfsStatus, Procedure};
use nfs_proto::xdr::{Decode, Encode, Reader, Writer};
use std::sync::atomic::Ordering;

impl Nfs3 {
    pub(super) fn commit(&self, file: &FileHandle) -> Result<Stable, Error> {
        let arguments = CommitArgs { file: handle(file)?, offset: 0, count: 0 };
        let (outcome, _): (CommitResult, _) = self.call(Procedure::Commit, &arguments)?;
        match outcome {
            Ok(ok) => Ok((verifier_of(ok.verifier, self.route.endpoints.index), ok.wcc.after.as_ref().map(attributes_of))),
            Err(failure) => Err(refusal(failure.status)),
        }
    }

    pub(super) fn commit_together(
        &self,
        files: &[Option<FileHandle>; SLOTS_MAX],
        answered: &mut dyn FnMut(usize, Result<Stable, Error>),
    ) -> Result<(), Error> {
        let endpoint = self.route.endpoints.index;
        let mut calls = Commits { endpoint, files: [None; SLOTS_MAX], next: 0, end: 0, answers: [None; SLOTS_MAX] };
        for (to, file) in calls.files.iter_mut().zip(files) {
            *to = file.as_ref().map(handle).transpose()?;
        }
        let mut left = files.iter().flatten().count();
        while left > 0 {
            let permit = self.admit(left);
            let count = permit.as_ref().map_or(left, |permit| permit.count().min(left));
            calls.end = calls.end_of(count);
            self.counts.commit_calls.fetch_add(count as u64, Ordering::Relaxed);
            self.pool.with(|channel| channel.run(&self.route, &mut calls))?;
            left -= count;
        }
        for (place, answer) in calls.answers.into_iter().enumerate() {
            match answer {
                // A COMMIT of the file alone waits for the export, or finds that the file is gone.
                None | Some(Err(NfsStatus::JukeBox | NfsStatus::Stale | NfsStatus::BadHandle)) => {}
                Some(Ok(said)) => answered(place, Ok(said)),
                Some(Err(status)) => answered(place, Err(refusal(status))),
            }
        }
        Ok(())
    }
}

/// COMMITs in flight; a call's number is the place of its file.
struct Commits {
    endpoint: EndpointIndex,
    files: [Option<nfs3::FileHandle>; SLOTS_MAX],
    /// The first place without a call yet.
    next: usize,
    /// Places from this one on wait for the next run.
    end: usize,
    answers: [Option<Result<Stable, NfsStatus>>; SLOTS_MAX],
}

impl Commits {
    /// The place after the last one of the next `count` files.
    fn end_of(&self, count: usize) -> usize {
        let places = self.files.iter().enumerate().skip(self.next).filter(|(_, file)| file.is_some());
        places.take(count).last().map_or(self.next, |(place, _)| place + 1)
    }
}

impl Calls for Commits {
    fn next_call(&mut self, _in_flight: usize) -> Option<usize> {
        let ahead = self.files.get(self.next..self.end)?;
        let place = self.next + ahead.iter().position(Option::is_some)?;
        self.next = place + 1;
        Some(place)
    }

    fn procedure(&self) -> u32 {
        Procedure::Commit.number()
    }

    fn encode(&self, call: usize, out: &mut Writer<'_>) {
        if let Some(Some(file)) = self.files.get(call) {
            CommitArgs { file: *file, offset: 0, count: 0 }.encode(out);
        }
    }

    fn reply(&mut self, call: usize, results: &mut Reader<'_>) -> Result<(), Fault> {
        let answer = match CommitResult::decode(results)? {
            Ok(ok) => Ok((verifier_of(ok.verifier, self.endpoint), ok.wcc.after.as_ref().map(attributes_of))),
            Err(failure) => Err(failure.status),
        };
        if let Some(place) = self.answers.get_mut(call) {
            *place = Some(answer);
        }
        Ok(())
    }
}
