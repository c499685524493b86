//! Every stored record, histograms, statistics; the schema of results.json.
