//! The load of a configuration: how many users, and in which load model.

use std::fmt;
use std::str::FromStr;

use crate::error::LabError;
use crate::limits::{SECONDS_MAX, USERS_MAX};

/// Load of one configuration: `users=8`, `users=8,seconds=600`, `saturate@local,model=open,rate=200/s`.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// Number of users, or how it is found.
    pub level: Level,
    /// `closed`, `paced` or `open`, as for `millrace orders run --model`.
    pub model: String,
    /// Rate of an open load: `200/s`, `9000/min`.
    pub rate: Option<String>,
    /// `constant` or `poisson` arrivals of an open load.
    pub arrivals: Option<String>,
    /// Seconds measured in a run; `None` for the plan's.
    pub seconds: Option<u64>,
}

/// The number of users, or how it is found.
#[derive(Debug, Clone, PartialEq)]
pub enum Level {
    /// This number of users.
    Users(u32),
    /// The number from which more users hardly increase the orders; found on one configuration for all, or on each.
    Saturate {
        /// Configuration on which it is found; `None`: on each one.
        at: Option<String>,
    },
    /// The number that makes the host busy to a given share.
    CpuShare {
        /// Percent of the host's processors.
        percent: f64,
        /// Configuration on which it is found; `None`: on each one.
        at: Option<String>,
    },
    /// One run for each step of a ladder of users.
    Sweep,
}

impl Load {
    /// A closed loop with this number of users.
    #[must_use]
    pub fn users(users: u32) -> Self {
        Self { level: Level::Users(users), model: "closed".to_owned(), rate: None, arrivals: None, seconds: None }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = |at: &Option<String>| at.as_ref().map_or_else(String::new, |arm| format!("@{arm}"));
        match self {
            Self::Users(users) => write!(formatter, "users={users}"),
            Self::Saturate { at } => write!(formatter, "saturate{}", on(at)),
            Self::CpuShare { percent, at } => write!(formatter, "cpu={percent}%{}", on(at)),
            Self::Sweep => formatter.write_str("sweep"),
        }
    }
}

impl FromStr for Level {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let (what, at) = match text.trim().split_once('@') {
            Some((what, arm)) if !arm.is_empty() => (what, Some(arm.to_owned())),
            Some(_) => ("", None),
            None => (text.trim(), None),
        };
        let percent = |text: &str| text.trim_end_matches('%').parse::<f64>().ok().filter(|share| (1.0..=99.0).contains(share));
        let level = match (what.split_once('='), what) {
            (Some(("users", count)), _) if at.is_none() => {
                count.parse().ok().filter(|count| (1..=USERS_MAX).contains(count)).map(Self::Users)
            }
            (Some(("cpu", share)), _) => percent(share).map(|percent| Self::CpuShare { percent, at }),
            (None, "saturate") => Some(Self::Saturate { at }),
            (None, "sweep") if at.is_none() => Some(Self::Sweep),
            _ => None,
        };
        level.ok_or_else(|| {
            let hint = format!("loads are users=N (1 to {USERS_MAX}), saturate[@PATH], cpu=PERCENT%[@PATH] and sweep");
            LabError::plan(format!("apply a load \"{text}\""), &hint)
        })
    }
}

impl fmt::Display for Load {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.level)?;
        if self.model != "closed" {
            write!(formatter, ",model={}", self.model)?;
        }
        for (key, value) in [("rate", &self.rate), ("arrivals", &self.arrivals)] {
            if let Some(value) = value {
                write!(formatter, ",{key}={value}")?;
            }
        }
        self.seconds.map_or(Ok(()), |seconds| write!(formatter, ",seconds={seconds}"))
    }
}

impl FromStr for Load {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let mut parts = text.split(',');
        let mut load = Self { level: parts.next().unwrap_or_default().parse()?, ..Self::users(1) };
        let mut given = Vec::new();
        for part in parts {
            let key = part.trim().split('=').next().unwrap_or_default();
            if given.contains(&key) {
                return Err(LabError::plan(format!("apply a load \"{text}\": {key} is given twice"), "write it once"));
            }
            given.push(key);
            match part.trim().split_once('=') {
                Some(("model", model)) if ["closed", "paced", "open"].contains(&model) => model.clone_into(&mut load.model),
                Some(("rate", rate)) => load.rate = Some(rate.to_owned()),
                Some(("arrivals", kind)) if ["constant", "poisson"].contains(&kind) => load.arrivals = Some(kind.to_owned()),
                Some(("seconds", count)) => {
                    let seconds = count.parse().ok().filter(|count| (1..=SECONDS_MAX).contains(count));
                    load.seconds = Some(seconds.ok_or_else(|| {
                        let hint = format!("a run measures 1 to {SECONDS_MAX} seconds");
                        LabError::plan(format!("apply a load with \"{part}\""), &hint)
                    })?);
                }
                _ => {
                    let hint = "after the level come model=closed|paced|open, rate=N/s, arrivals=constant|poisson and seconds=N";
                    return Err(LabError::plan(format!("apply a load with \"{part}\""), hint));
                }
            }
        }
        if (load.model == "open") != load.rate.is_some() {
            return Err(LabError::plan(
                format!("apply a load \"{text}\""),
                "an open load, and only that, has a rate: model=open,rate=200/s",
            ));
        }
        Ok(load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read_and_written_alike() {
        for text in
            ["users=8", "saturate", "saturate@local", "cpu=70%@dnfs:old", "sweep", "users=4,model=paced", "users=4,seconds=600"]
        {
            assert_eq!(text.parse::<Load>().unwrap().to_string(), text);
        }
        let open: Load = "users=8,model=open,rate=200/s,arrivals=poisson".parse().unwrap();
        assert_eq!((open.rate.as_deref(), open.arrivals.as_deref()), (Some("200/s"), Some("poisson")));
    }

    #[test]
    fn nonsense_is_refused_with_a_hint() {
        for text in [
            "",
            "users=0",
            "users=8@local",
            "saturate@",
            "cpu=0%",
            "full",
            "users=8,model=warp",
            "users=8,model=open",
            "users=8,rate=1/s",
            "users=8,seconds=0",
            "users=8,seconds=5,seconds=6",
        ] {
            assert!(text.parse::<Load>().unwrap_err().hint().is_some(), "{text}");
        }
    }
}
