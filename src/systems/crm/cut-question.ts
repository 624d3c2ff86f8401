import type { ApprovalRequest } from "millrace";
import type { Lost } from "./pushed.ts";

/** The question when so many records are missing that a wrong account or a mistake there is more likely than deletions. */
export function cutQuestion(syncId: string, { gone, lookedAt, records }: Lost): ApprovalRequest {
  return {
    question: `${gone} of ${lookedAt} records that the sync “${syncId}” has just looked at are gone from the CRM. Were they deleted there, and are no syncs to bring these contacts back?`,
    details: { sync_id: syncId, gone, looked_at: lookedAt, crm_ids: records },
  };
}

/** Why a sync ends without the confirmation. */
export const NOT_AGREED =
  "Nobody agreed that the records which are gone from the CRM were deleted there. What the sync did before stays, and these contacts keep their links. If CRM_URL, CRM_TOKEN or CRM_ACCOUNT are wrong, mend them and send another sync.";
