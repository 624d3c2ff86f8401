import type { Catalog } from "../topology/catalog.ts";
import type { Check } from "./check.ts";
import { entries } from "./checks/entries.ts";
import { lanes, locks } from "./checks/objects.ts";
import { outbox, promises, schedules } from "./checks/overdue.ts";
import { ends, setBack } from "./checks/platform.ts";
import { doubts, instances, letters, payloads } from "./checks/records.ts";
import { sleepers } from "./checks/sleepers.ts";

/**
 * The engine's own checks. Records in progress are checked each hour, other records once a day. docs/reconciliation.md lists the kinds of
 * divergence, and a test compares the page with this list.
 */
export const engineChecks = (catalog?: Catalog): readonly Check[] => [
  sleepers,
  doubts,
  outbox(catalog),
  letters,
  promises,
  schedules,
  locks,
  lanes,
  instances,
  entries(catalog),
  ends,
  setBack,
  payloads,
];
