import { crmRests, crmTellsNobody } from "../../providers/embedded.ts";

// The embedded CRM is shared by all tests. A test's changes there are not sent to a tenant of this Worker, which would read them
// during another test, unless the test itself names it; and the calls of one file use up nothing of the next one's limit.
await crmTellsNobody();
await crmRests();
