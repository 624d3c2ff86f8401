import { defineConsumer } from "millrace";
import { smCommands } from "../messages/queues.ts";
import { auditBrand } from "../workflows/audit-brand.ts";
import { planCycle } from "../workflows/plan-cycle.ts";

export const planning = defineConsumer({ queue: smCommands, priority: { low: "5 minutes" }, starts: [planCycle, auditBrand] });
