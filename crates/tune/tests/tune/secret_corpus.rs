//! Files of a Linux host that contain secrets where administrators have written some. Every secret
//! begins with [`MARK`].

#![allow(dead_code, reason = "shared with the tests of the program")]

/// The beginning of every planted secret.
pub(crate) const MARK: &str = "7e11Tale";

/// Number of secrets.
pub(crate) const COUNT: usize = 64;

/// Path and text of each file; `@N@` is secret number N.
const FILES: &[(&str, &str)] = &[
    (
        "etc/fstab",
        "UUID=1234 / ext4 errors=remount-ro 0 1\n\
         //nas/a /mnt/a cifs username=@1@,password=@2@ 0 0\n\
         //nas/b /mnt/b cifs user=dom/u%@3@,pass=@4@,x@5@ 0 0\n\
         sshfs#backup:@6@@nas:/b /mnt/c fuse allow_other 0 0\n\
         https://u:@7@@dav/x /mnt/d davfs rw 0 0\n\
         mon1:/ /mnt/e ceph name=admin,secret=@8@,noatime 0 2\n\
         filer:/db /srv/pg nfs soft,vers=3,password2=@9@ 0 0 # was @10@\n",
    ),
    (
        "proc/cmdline",
        "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet netroot=iscsi:@11@:@12@:u2:@13@@10.0.0.1::3260:1:iqn.2003-01.x:y cifspass=@14@ \
         rd.iscsi.in.password=@15@ @16@ transparent_hugepage=never\n",
    ),
    (
        "etc/iscsi/iscsid.conf",
        "# CHAP was @17@\nnode.session.auth.username = @18@\nnode.session.auth.password = @19@\nnode.session.cmds_max = 128\n\
         discovery.sendtargets.auth.password_in = @20@\nnode.session.timeo.replacement_timeout = 120 # @21@\n",
    ),
    (
        "etc/mysql/my.cnf",
        "# @22@\n[client]\npass=@23@\npassword = \"@24@ b\"\n@25@\n[mysqld]\ninit_connect=\"SET PASSWORD = PASSWORD('@26@')\"\n\
         loose_hashicorp_key_management_token=\"@27@\"\nfile_key_management_filekey = @28@\nwsrep_sst_auth=root:@29@\n\
         innodb_flush_log_at_trx_commit = 1 # @30@\nssl_passphrase=@31@\nreport-password=@32@\n",
    ),
    (
        "etc/postgresql/15/main/postgresql.conf",
        "primary_conninfo = 'host=h user=repl password=''x @33@'' sslmode=require'\narchive_command = 'AWS_SECRET=@34@ aws s3 cp %p s3://b'\n\
         restore_command 'curl -u u:@35@ http://x'\narchive_cleanup_command = 'x --pw @36@'\nssl_passphrase_command = 'echo @37@'\n\
         ldap.bindpw = '@38@'\nfsync = on # @39@\ndata_directory = '/srv/pg'\n# @40@\n",
    ),
    (
        "etc/sysctl.d/10-a.conf",
        "# @41@\nvm.swappiness = 1\nkernel.core_pattern = |/bin/ship --token @42@\nnet.ipv6.conf.all.stable_secret = @43@\n",
    ),
    (
        "etc/modprobe.d/a.conf",
        "# @44@ \\\n @45@\noptions nfs max_session_slots=64 key=@46@ \\\n other=@47@\ninstall x /bin/sh -c 'y @48@'\n",
    ),
    (
        "etc/multipath.conf",
        "devices {\n\tdevice {\n\t\tvendor \"NETAPP\"\n\t\tproduct \"LUN\" # @49@\n\t\treservation_key \"@50@\"\n\t}\n}\n",
    ),
    ("etc/nfsmount.conf", "[ NFSMount_Global_Options ]\nSoft=True\nPassword=@51@\n"),
    (
        "etc/systemd/system/srv-x.mount",
        "[Unit]\nDescription=@52@\n[Mount]\nWhat=filer:/x\nWhere=/srv/x\nType=nfs\nOptions=soft,cred=@53@\n",
    ),
    ("etc/auto.master", "/cifs /etc/auto.cifs --timeout=60\n"),
    ("etc/auto.cifs", "a -fstype=cifs,username=b,password=@54@ ://nas/a\n"),
    ("etc/oranfstab", "server: f1\npath: 10.0.1.5\nexport: /vol/a mount: /u02\nmount_user: @55@\ncommunity: @56@\n"),
    (
        "etc/netplan/a.yaml",
        "network:\n  wifis:\n    wlan0:\n      auth:\n        password: \"@57@\"\n  tunnels:\n    wg0:\n      key: @58@\n      mtu: 9000\n",
    ),
    (
        "etc/NetworkManager/system-connections/a.nmconnection",
        "[connection]\ninterface-name=eth1\n[gsm]\npin=@59@\n[ethernet]\nmtu=9000\n",
    ),
    ("etc/pam.d/su", "session required pam_limits.so\nauth required pam_mysql.so user=a passwd=@60@\n"),
    ("etc/network/interfaces", "iface eth1 inet static\n  mtu 9000\n  wpa-psk @61@\n"),
    ("etc/security/limits.conf", "oracle soft nofile 1024 # @62@\n"),
    ("home/oracle/.bash_profile", "export ORACLE_PW=@63@; ulimit -n 65536; sqlplus sys/@64@\n"),
    ("etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n"),
    ("etc/hosts", "127.0.0.1 localhost\n10.0.1.5 filer\n"),
    ("proc/meminfo", "MemTotal: 8000000 kB\n"),
    (
        "proc/self/mountinfo",
        "40 22 0:50 / /u02 rw,relatime shared:1 - nfs filer:/vol/a rw,vers=3,hard,proto=tcp,timeo=600,addr=10.0.1.5\n",
    ),
];

/// The files with their secrets.
pub(crate) fn files() -> Vec<(&'static str, String)> {
    let planted = |text: &str| {
        let pieces = text.split('@').enumerate();
        pieces.fold(String::new(), |out, (_, piece)| match piece.parse::<usize>() {
            Ok(number) => format!("{out}{MARK}{number:02}"),
            Err(_) => format!("{out}{}", if piece.is_empty() { "@" } else { piece }),
        })
    };
    FILES.iter().map(|(path, text)| (*path, planted(text))).collect()
}
