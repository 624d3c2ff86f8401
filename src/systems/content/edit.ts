import { type EngineEnv, enqueueOne, ids, namedBatch } from "millrace";
import { audit, type Operator } from "millrace/operate";
import type { Catalog } from "millrace/worker";
import { ContentPublish } from "../../messages/content.ts";
import type { ArticleRow } from "./article-rows.ts";
import { type ArticleEdit, editText } from "./articles.ts";

/**
 * The result of an edit: the article's new revision, the id of the audit row, and the instance that updates the article's pages. The
 * instance is null if the article is not published.
 */
interface Edited {
  revision: number;
  actionId: string;
  instanceId: string | null;
}

/**
 * Changes the text of an article in its current revision. A separate instance updates the pages of a published article at the same URLs.
 * The edit, the audit row and the command for the pages are one write. The result is undefined if the article has changed since it was
 * read.
 */
export async function editArticle(
  env: EngineEnv,
  catalog: Catalog,
  by: Operator,
  { id, brand, revision, status }: ArticleRow,
  edit: ArticleEdit,
  reason: string,
): Promise<Edited | undefined> {
  const { tenantId } = by;
  const next = revision + 1;
  // The audit row contains no texts of the article, because the audit row is kept for longer than the article.
  const detail = { revision: next, fields: Object.keys(edit) };
  const action = {
    id: ids.digest("article", "edit", tenantId, id, String(next)),
    verb: "edit",
    target: id,
    instanceId: null,
    reason,
    detail,
  };
  const write = { edited: editText({ tenantId, id, revision, status }, edit), audited: audit(by, action, false) };
  try {
    if (status !== "published") {
      await namedBatch(env.DB, write);
      return { revision: next, actionId: action.id, instanceId: null };
    }
    const command = { command: ContentPublish, payload: { content_id: id, brand, update: true }, idempotencyKey: `${id}/edit/${next}` };
    const { instanceId } = await enqueueOne(env, catalog, { tenantId, source: "api" }, command, Object.values(write));
    return { revision: next, actionId: action.id, instanceId };
  } catch (error) {
    if (error instanceof Error && error.message.includes("articles.revision")) return undefined;
    throw error;
  }
}
