import { get } from "../../data/api.ts";
import { useData } from "../../data/use-data.ts";
import { type Bulk, nounOf, scopeOf } from "./words.ts";

const MOST_CAUSES = "200";

/**
 * Shows a bulk action's filter as text. For a cause of failures, the text contains the cause's message, or the cause's id if the message is
 * unknown.
 */
export function Scope({ verb, filter }: { verb: string; filter: Bulk["filter"] }) {
  const { cause, ...others } = filter ?? {};
  const said = useCause(verb, typeof cause === "string" ? cause : "");
  const rest = scopeOf(filter && (said ? others : filter));
  return (
    <bdi>
      {said && (
        <>
          <strong>{said}</strong>
          {Object.keys(others).length > 0 && " · "}
        </>
      )}
      {(!said || Object.keys(others).length > 0) && rest}
    </bdi>
  );
}

function useCause(verb: string, cause: string): string | undefined {
  const { data } = useData(
    async () => {
      if (cause === "") return { ok: true as const, data: undefined };
      if (nounOf(verb)[0] === "dead letter") {
        const found = await get("/v1/dead-letters/causes", { query: { limit: MOST_CAUSES } });
        if (!found.ok) return found;
        const one = found.data.items.find(({ id }) => id === cause);
        return { ok: true as const, data: one && `${one.queue}, ${one.reason.replaceAll("_", " ")}: ${one.message}` };
      }
      const found = await get("/v1/instances/causes", { query: { limit: MOST_CAUSES } });
      if (!found.ok) return found;
      const one = found.data.items.find(({ id }) => id === cause);
      return { ok: true as const, data: one && `${one.workflow}, ${one.step ?? one.code}: ${one.message}` };
    },
    [cause],
    () => false,
  );
  return data;
}
