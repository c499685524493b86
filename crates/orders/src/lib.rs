//! The order-entry load: schema, loader, five transactions, pacing, measuring.
