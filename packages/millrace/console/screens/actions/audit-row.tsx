import { get } from "../../data/api.ts";
import { useData } from "../../data/use-data.ts";
import { go, hrefOf, Link } from "../../frame/router.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { Pairs, ProblemNote } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Id, Moment, Quiet } from "../../parts/text.tsx";
import "./actions.css";
import { type Action, begun, textOf } from "./words.tsx";

/** Shows one row of the audit, which the URL identifies by its position. The link works until the audit deletes the row. */
export function AuditRow({ row, close }: { row: string; close: string }) {
  const { data, problem } = useData(() => get("/v1/audit", { query: { cursor: `${row}_`, limit: "1" } }), [row]);
  const action = data?.items.find(({ id }) => row.endsWith(`.${id}`));
  return (
    <Dialog title={action ? `${begun(action.verb)}, by ${action.actor}` : "An action"} close={() => go(close)}>
      {problem && <ProblemNote problem={problem} />}
      {data && !action && <p class="quiet">No such row in the audit. Rows are kept for 400 days.</p>}
      {action && <Whole action={action} />}
    </Dialog>
  );
}

const OF_LETTERS = new Set(["replay", "skip", "escalate", "repair"]);
const OF_BULK = new Set(["bulk", "abort", "resume"]);

function aboutOf({ verb, target, instance_id: instance, result }: Action): string | undefined {
  if (instance === target) return hrefOf("instances", target);
  if (result === "refused") return undefined;
  return OF_LETTERS.has(verb) ? hrefOf("dead-letters", target) : OF_BULK.has(verb) ? hrefOf("actions", target) : undefined;
}

function Whole({ action }: { action: Action }) {
  const { id, token_id: token, scope, target, instance_id: instance, reason, detail, before, after, at } = action;
  const about = aboutOf(action);
  const bulk = detail?.bulk;
  return (
    <>
      <Pairs
        of={{
          Result: <Status word={action.result} />,
          Reason: <bdi>{reason}</bdi>,
          When: <Moment at={at} />,
          Target: (
            <>
              {about ? <Link to={about}>{target}</Link> : <bdi>{target}</bdi>} ·{" "}
              <Link to={hrefOf("audit", { target })}>all actions on it</Link>
            </>
          ),
          Instance: instance && instance !== target && <Link to={hrefOf("instances", instance)}>{instance}</Link>,
          "Part of": typeof bulk === "string" && <Link to={hrefOf("actions", bulk)}>a bulk action</Link>,
          By: (
            <>
              <bdi>{action.actor}</bdi>
              {token ? ", with the token " : bulk ? "" : ", without a token"}
              {token && <Id id={token} />}
              {scope && <Quiet of={` by the scope ${scope}`} />}
            </>
          ),
          Error: action.error && <bdi>{action.error}</bdi>,
          Action: <Id id={id} />,
        }}
      />
      {before || after ? <Change before={before ?? {}} after={after ?? {}} /> : <p class="quiet">No change is recorded.</p>}
      {detail && <pre>{JSON.stringify(detail, null, 2)}</pre>}
    </>
  );
}

type Fields = Readonly<Record<string, unknown>>;

function Change({ before, after }: { before: Fields; after: Fields }) {
  const said = (of: Fields, name: string) => (name in of ? <code>{textOf(of[name])}</code> : <Quiet of="–" />);
  return (
    <table class="actions-change" aria-label="Before and after">
      <thead>
        <tr>
          {["Field", "Before", "After"].map((head) => (
            <th key={head} scope="col">
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {Object.keys({ ...before, ...after }).map((name) => (
          <tr key={name} data-changed={JSON.stringify(before[name]) !== JSON.stringify(after[name]) || undefined}>
            <td>{name.replaceAll("_", " ")}</td>
            <td>{said(before, name)}</td>
            <td>{said(after, name)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
