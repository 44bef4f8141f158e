"""Numbers of the system calls that the seccomp filter names, per architecture (x86_64, aarch64); None: not
there.

Taken from the kernel's tables. A number never changes once it is released; a call that is newer than a kernel
is refused there with ENOSYS anyway.
"""

from typing import Final

# What a tenant's program never needs, grouped by what it would be good for.
DENIED: Final[dict[str, tuple[int, int | None]]] = {
    # other processes: their memory, registers, descriptors
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "perf_event_open": (298, 241),
    "lookup_dcookie": (212, 18),
    # namespaces and mounts
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    # who opens and starts what, also of files that all contexts share: programs poll where this is refused
    "fanotify_init": (300, 262),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
    # of which the machine has so many in all (fs.aio-max-nr), and its databases need them
    "io_setup": (206, 0),
    # parts of the kernel with a long record of holes
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "modify_ldt": (154, None),
    "iopl": (172, None),
    "ioperm": (173, None),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "memfd_secret": (447, 447),
    # the machine as a whole
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "uselib": (134, None),
    "sysfs": (139, None),
    "nfsservctl": (180, 42),
}

# What reaches past the context, to the disks and the page cache that all use, by a file that can only be read, too.
# Nothing that a context writes outlives it: so there is nothing to do, and that is what it is told.
NEEDLESS: Final[dict[str, tuple[int, int]]] = {
    "sync": (162, 81),
    "syncfs": (306, 267),
    "fsync": (74, 82),
    "fdatasync": (75, 83),
    "fadvise64": (221, 223),
}

# Objects that outlive their process and are shared by all who can name them; harmless in an own IPC namespace
# only.
SYSTEM_V_IPC: Final[dict[str, tuple[int, int | None]]] = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "msgget": (68, 186),
    "msgctl": (71, 187),
    "semget": (64, 190),
    "semctl": (66, 191),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}

CLONE: Final = (56, 220)
CLONE3: Final = (435, 435)
FCNTL: Final = (72, 25)
IOCTL: Final = (16, 29)
SOCKET: Final = (41, 198)
SOCKETPAIR: Final = (53, 199)
