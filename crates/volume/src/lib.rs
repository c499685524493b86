//! Files of a volume in a store, durability, loss of unsynced data.
