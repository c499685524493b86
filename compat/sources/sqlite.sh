# Arguments: the directory, a file of comma-separated rows.
set -eu
cd "$1"
sqlite3 data 'create table t(id integer primary key, name text, filler text)'
sqlite3 data ".mode csv" ".import $2 t" 'select count(*), sum(length(filler)) from t'
sqlite3 data 'create index by_name on t(name); delete from t where id % 3 = 0; update t set name = upper(name) where id % 5 = 0'
sqlite3 data 'vacuum; pragma integrity_check; pragma page_count; pragma freelist_count'
sqlite3 data "attach 'other' as o; create table o.u as select * from t where id < 100; begin; insert into o.u select * from t; rollback; select count(*) from o.u"
sqlite3 data ".backup copy"; sqlite3 copy 'pragma integrity_check'; sqlite3 data .dump | sha256sum; sqlite3 copy .dump | sha256sum
sqlite3 data 'pragma journal_mode=wal; insert into t(name) values (1); pragma wal_checkpoint(truncate); select count(*) from t'
sqlite3 data 'pragma journal_mode=delete; pragma mmap_size=1000000; select max(id) from t; pragma quick_check'; ls
