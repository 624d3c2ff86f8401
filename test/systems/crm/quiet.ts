import { crmRests, crmTellsNobody } from "../../providers/embedded.ts";

// The embedded CRM is shared by all tests. A test's changes in it are not sent to a tenant of this Worker, which would read them during
// another test, unless the test itself names the tenant; and the calls of one file do not use up the limit of the next file.
await crmTellsNobody();
await crmRests();
