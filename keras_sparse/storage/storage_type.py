import enum


class StorageType(enum.StrEnum):
    """The tiers of a table, from the fastest to the slowest.

    `HBM` is GPU memory, `DRAM` memory, `PMEM` persistent memory, `LEVELDB` and `SSDHASH` a disk.
    Rows are used in the first tier; colder rows are kept in the others.

    Example:
    >>> StorageType("DRAM_SSDHASH").tiers
    ('DRAM', 'SSDHASH')
    """

    HBM = "HBM"
    DRAM = "DRAM"
    HBM_DRAM = "HBM_DRAM"
    HBM_DRAM_PMEM = "HBM_DRAM_PMEM"
    HBM_DRAM_LEVELDB = "HBM_DRAM_LEVELDB"
    HBM_DRAM_SSDHASH = "HBM_DRAM_SSDHASH"
    HBM_DRAM_PMEM_LEVELDB = "HBM_DRAM_PMEM_LEVELDB"
    HBM_DRAM_PMEM_SSDHASH = "HBM_DRAM_PMEM_SSDHASH"
    DRAM_PMEM = "DRAM_PMEM"
    DRAM_LEVELDB = "DRAM_LEVELDB"
    DRAM_SSDHASH = "DRAM_SSDHASH"
    DRAM_PMEM_LEVELDB = "DRAM_PMEM_LEVELDB"
    DRAM_PMEM_SSDHASH = "DRAM_PMEM_SSDHASH"

    @property
    def tiers(self):
        """Tuple of the tiers' names."""
        return tuple(self.value.split("_"))
