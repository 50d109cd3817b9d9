-- A tester's database as version 1 wrote it (sqlite3 .dump).
BEGIN TRANSACTION;
CREATE TABLE plans (
  test_id TEXT PRIMARY KEY, model TEXT NOT NULL, mode TEXT NOT NULL, division TEXT NOT NULL, scenario TEXT NOT NULL,
  object_type TEXT NOT NULL, created REAL NOT NULL
);
INSERT INTO "plans" VALUES('20261115-ljp0IY','resnet50_v1.5','training','open','generic','single',1794000000.5);
CREATE TABLE refusals (
  sha256 TEXT NOT NULL, submitter TEXT NOT NULL, bench TEXT, test_id TEXT, received REAL NOT NULL, problems TEXT NOT NULL,
  PRIMARY KEY (sha256, submitter)
);
INSERT INTO "refusals" VALUES('cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc','lab-3',NULL,'20261115-ljp0IY',1794000000.5,'["it is not a bundle"]');
CREATE TABLE results (
  number INTEGER PRIMARY KEY AUTOINCREMENT, bench TEXT NOT NULL UNIQUE, sha256 TEXT NOT NULL UNIQUE, size INTEGER NOT NULL,
  submitter TEXT NOT NULL, received REAL NOT NULL, test_id TEXT, model TEXT NOT NULL, mode TEXT NOT NULL,
  division TEXT NOT NULL, scenario TEXT NOT NULL, object_type TEXT NOT NULL, name TEXT NOT NULL, created REAL,
  passed INTEGER NOT NULL, metric TEXT NOT NULL, value REAL, unit TEXT NOT NULL, better TEXT NOT NULL, accuracy REAL,
  nodes INTEGER, devices INTEGER, hardware TEXT NOT NULL, samples_per_joule REAL,
  signature TEXT NOT NULL, signed_by TEXT, result TEXT NOT NULL, system TEXT
);
INSERT INTO "results" VALUES(1,'resnet-20261115-000000-abcd','bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',4096,'lab-3',1794000000.5,'20261115-ljp0IY','resnet50_v1.5','training','open','generic','single','resnet',1793999000.0,1,'throughput',901.16,'samples/s','higher',0.71,2,2,'a CPU',NULL,'none',NULL,'{"id": "resnet-20261115-000000-abcd", "name": "resnet"}','{"vendor": "\u6d4b\u8bd5"}');
CREATE TABLE runs (run TEXT PRIMARY KEY, number INTEGER NOT NULL REFERENCES results(number));
INSERT INTO "runs" VALUES('resnet-20261115-000000-abcd.1',1);
CREATE TABLE sessions (hash TEXT PRIMARY KEY, token TEXT NOT NULL REFERENCES tokens(hash), until REAL NOT NULL);
INSERT INTO "sessions" VALUES('0f007385b6f9d4b7eeb2748605afe1a984a0a3bfa3f014d09e2a784ce9e5cd1a','cc27ff65dd79a7fdeccf29b977adeb78a7d2661f971940ab6cf517cc8b3ce348',99999999999.0);
CREATE TABLE tokens (name TEXT PRIMARY KEY, role TEXT NOT NULL, hash TEXT NOT NULL UNIQUE, created REAL NOT NULL, revoked REAL);
INSERT INTO "tokens" VALUES('lab-3','submit','cc27ff65dd79a7fdeccf29b977adeb78a7d2661f971940ab6cf517cc8b3ce348',1794000000.5,NULL);
INSERT INTO "tokens" VALUES('lab-4','read','d649442d8cbfef2bf8701b7891be0be58fa16ffe2e4b35d89cbacd2e88588171',1794000000.5,1794000000.5);
CREATE TABLE uploads (
  id TEXT PRIMARY KEY, submitter TEXT NOT NULL, sha256 TEXT NOT NULL, size INTEGER NOT NULL, test_id TEXT,
  touched REAL NOT NULL, UNIQUE (submitter, sha256)
);
INSERT INTO "uploads" VALUES('00000000000000000000000000000000','lab-3','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',100,NULL,1794000000.5);
COMMIT;
PRAGMA user_version = 1;
