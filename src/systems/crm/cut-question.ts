import type { Steps } from "millrace";
import type { Lost } from "./pushed.ts";

/**
 * Creates the question to an operator when many CRM records are missing. In this case a wrong account or a mistake is more likely than
 * deletions.
 */
export function cutQuestion(syncId: string, { gone, lookedAt, records }: Lost): Parameters<Steps["approve"]>[1] {
  return {
    question: `${gone} of ${lookedAt} records that the sync “${syncId}” has just read are missing in the CRM. Did the CRM delete their records, so that syncs should leave these contacts out?`,
    details: { sync_id: syncId, gone, looked_at: lookedAt, crm_ids: records },
  };
}

/** The error of a sync whose operator did not confirm the deletions. */
export const NOT_AGREED =
  "The deletion of the missing CRM records was not confirmed. The sync's earlier chunks are done, and these contacts keep their links. If CRM_URL, CRM_TOKEN or CRM_ACCOUNT are wrong, fix them and send another sync.";
