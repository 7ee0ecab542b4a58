BEGIN TRANSACTION;
CREATE TABLE claims (key, consumer, line, project, grant, items, decision, state, owner, asked, since, PRIMARY KEY (key));
INSERT INTO "claims" VALUES('k1','c1','k1','p','s/grant','{"k1 CUSTOM_LICENSE_DB": [["r1", "CUSTOM_LICENSE_DB", 2]]}','{"a": {"seats": 2}}','held','','',1800000000.5);
INSERT INTO "claims" VALUES('k1 s/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx','c1','k2','p','s/other','{}','{}','shared','k1','{}',1800000000.5);
INSERT INTO "claims" VALUES('k3','','','p','','{}','{}','dead','','',1800000000.5);
COMMIT;
