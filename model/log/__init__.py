"""One replica's log.

leader_epoch_file_cache  A log's leader-epoch cache: which epochs its records are of, and where each
                         begins (KIP-101).
log_cleaner              Compaction of one log: of each key only the newest record stays (Kafka's
                         LogCleaner and Cleaner).
unified_log              One replica's log of one partition: batches, leader epochs, producer state,
                         transactions.
"""
