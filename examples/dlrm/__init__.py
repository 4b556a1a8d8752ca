"""MLPerf's DLRM on Criteo's click logs, or on made-up ones of their form."""
