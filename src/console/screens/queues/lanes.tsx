import { get, type Item } from "../../data/api.ts";
import { usePages } from "../../data/use-pages.ts";
import { useRegularly } from "../../data/use-regularly.ts";
import { go, hrefOf, Link } from "../../frame/router.tsx";
import { shortId } from "../../parts/id.tsx";
import { List } from "../../parts/list.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { Ago } from "../../parts/time.tsx";

type Noted = Item<"/v1/lanes">;

const COLUMNS: readonly Column<Noted>[] = [
  { head: "State", width: "104px", narrow: "88px", cell: (one) => <Status word={wordFor(one)} /> },
  { head: "Lane", width: "1fr", cell: ({ lane }) => lane },
  {
    head: "Key",
    width: "1.4fr",
    cell: ({ key }) => (
      <bdi>
        <strong>{key}</strong>
      </bdi>
    ),
  },
  { head: "Blocked by", width: "3.4fr", isMinor: true, cell: (one) => <Blocked by={one} /> },
  { head: "Waits", width: "64px", isMinor: true, isNumber: true, cell: ({ depth }) => depth.toLocaleString() },
  { head: "Since", width: "88px", narrow: "80px", isNumber: true, cell: ({ oldest_at, noted_at }) => <Ago at={oldest_at ?? noted_at} /> },
];

/** How a lane stands: one that waits for an instance that failed is blocked. */
export function wordFor({ state, ahead }: Pick<Noted, "state" | "ahead">): string {
  return state === "waiting" && ahead.some(({ failed }) => failed !== null) ? "blocked" : state;
}

/** The instance that failed in front of it, in whose words; or what the lane says. */
function Blocked({ by: { why, ahead } }: { by: Noted }) {
  const failed = ahead.find((one) => one.failed !== null);
  if (!failed) return <bdi title={why ?? ""}>{why ?? "nothing: it has a backlog"}</bdi>;
  return (
    <span title={failed.failed ?? ""}>
      <Link to={hrefOf("instances", failed.instance_id)}>{shortId(failed.instance_id)}</Link>: <bdi>{failed.failed}</bdi>
    </span>
  );
}

const nameOf = ({ lane, key }: Noted) => `${lane}/${key}`;

/** The lanes that stand still or have a backlog: what blocks each, and since when. */
export function Lanes() {
  const pages = usePages((cursor) => get("/v1/lanes", { query: { cursor, limit: "50" } }), [], { nameOf, isAbout: () => true });
  useRegularly(pages.again);
  return (
    <section aria-labelledby="lanes">
      <h2 id="lanes">Lanes that do not flow</h2>
      <List
        pages={pages}
        noun={["lane", "lanes"]}
        empty={
          <p class="quiet">
            Every lane flows. Those that are held or paused stand here, and those whose oldest message has waited for ten seconds. A lane
            keeps the messages of one key in order: defineLaneQueue makes a queue of them.
          </p>
        }
      >
        {(rows) => (
          <Table label="Lanes" rows={rows} columns={COLUMNS} nameOf={nameOf} hrefOf={({ lane, key }) => hrefOf("queues", { lane, key })} />
        )}
      </List>
      <LookAt />
    </section>
  );
}

/** A lane that flows is in no list: its own object is asked, by its name. */
function LookAt() {
  const look = (event: SubmitEvent) => {
    event.preventDefault();
    const asked = new FormData(event.currentTarget as HTMLFormElement);
    go(hrefOf("queues", { lane: String(asked.get("lane")).trim(), key: String(asked.get("key")).trim() }));
  };
  return (
    <form class="filters" aria-label="Look at any lane" onSubmit={look}>
      <label>
        Any other lane
        <input type="text" name="lane" placeholder="its name" required autocomplete="off" spellcheck={false} />
      </label>
      <label>
        Key
        <input type="text" name="key" placeholder="a subject" required autocomplete="off" spellcheck={false} />
      </label>
      <button type="submit">Look</button>
    </form>
  );
}
