//! The views of all connections. A reload replaces them, also those of idle connections, so that no connection keeps a volume open that
//! is no longer served.

use std::sync::{Arc, Mutex, Weak};

use host::Unpoisoned;

use super::exports::View;

/// The view of one connection.
pub(crate) struct OwnView(Mutex<Arc<View>>);

/// The views of all connections.
#[derive(Default)]
pub(crate) struct Views(Mutex<State>);

#[derive(Default)]
struct State {
    views: Vec<Weak<OwnView>>,
    /// Number of views at which those of ended connections are removed.
    full: usize,
}

impl OwnView {
    /// The view now. A call keeps it until its end.
    pub(crate) fn now(&self) -> Arc<View> {
        Arc::clone(&self.0.lock().unpoisoned())
    }

    /// Replaces the view by one that is made from it.
    pub(crate) fn replace(&self, make: impl FnOnce(&View) -> Arc<View>) {
        let mut own = self.0.lock().unpoisoned();
        let after = make(&own);
        let before = std::mem::replace(&mut *own, after);
        // This may drop the last reference to a volume, whose close takes time.
        drop(own);
        drop(before);
    }
}

impl Views {
    /// Adds the view of a new connection. It is made under the lock, so that a reload replaces it or has replaced the exports before.
    pub(crate) fn add(&self, make: impl FnOnce() -> Arc<View>) -> Arc<OwnView> {
        let mut state = self.0.lock().unpoisoned();
        if state.views.len() >= state.full {
            state.views.retain(|view| view.strong_count() > 0);
            state.full = (2 * state.views.len()).max(64);
        }
        let own = Arc::new(OwnView(Mutex::new(make())));
        state.views.push(Arc::downgrade(&own));
        own
    }

    /// Replaces each view by one that is made from it.
    pub(crate) fn replace_all(&self, make: impl Fn(&View) -> Arc<View>) {
        let views = self.0.lock().unpoisoned().views.clone();
        views.iter().filter_map(Weak::upgrade).for_each(|view| view.replace(&make));
    }
}
