import { crmRests, crmTellsNobody } from "../../providers/embedded.ts";

// The embedded CRM is one for all tests. What a test changes there is not told to a tenant of this Worker, which would look at it while
// another test runs, unless the test itself says to whom; and the calls of one file use up nothing of the next one's limit.
await crmTellsNobody();
await crmRests();
