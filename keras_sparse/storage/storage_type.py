import enum


class StorageType(enum.StrEnum):
    """Enumerates the tiers that a table can have, from the fastest to the slowest.

    `HBM` is GPU memory, `DRAM` memory, `PMEM` persistent memory; `LEVELDB` and `SSDHASH` are on a
    disk. Rows are used in the first tier, and colder rows are kept in the others.

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
        """Tuple of strings: the names of the tiers."""
        return tuple(self.value.split("_"))
