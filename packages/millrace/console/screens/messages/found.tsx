import { type Answer, get, type Result } from "../../data/api.ts";
import { useData } from "../../data/use-data.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Nothing, screenOf } from "../../frame/search.tsx";
import { Empty, Lines, Loaded, Section } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { Ago, Id, inWords, Quiet } from "../../parts/text.tsx";

type Search = Answer<"/v1/search">;
type Finding = Search["items"][number];
type Key = Answer<"/v1/keys/:key">;
type Holder = Key["holders"][number];

interface Known {
  search: Search;
  held: Key | undefined;
}

async function look(q: string): Promise<Result<Known>> {
  const search = await get("/v1/search", { query: { q } });
  if (!search.ok) return search;
  const isKey = search.data.items.some(({ by, match }) => by === "idempotency_key" && match === "exact");
  const key = isKey ? await get("/v1/keys/:key", { param: { key: q } }) : undefined;
  if (key?.ok === false && key.problem.code !== "key_not_found") return key;
  return { ok: true, data: { search: search.data, held: key?.ok ? key.data : undefined } };
}

export function Found({ q }: { q: string }) {
  const found = useData(() => look(q), [q], ["instance", "dead_letter"]);
  return <Loaded of={found}>{(data) => <Results q={q} {...data} />}</Loaded>;
}

function Results({ q, search, held }: Known & { q: string }) {
  return (
    <>
      {held && <HeldKey held={held} />}
      <Section title="Search results">
        {search.items.length === 0 ? (
          <Empty>
            <Nothing q={q} looked={search.scanned} />
          </Empty>
        ) : (
          <Table
            label="Search results"
            rows={search.items}
            columns={FINDINGS}
            nameOf={nameOf}
            hrefOf={(one) => screenOf(one) ?? hrefOf("messages", { q: one.id })}
          />
        )}
        <More search={search} />
      </Section>
    </>
  );
}

const nameOf = ({ kind, id, by }: Finding) => `${kind} ${id} ${by}`;

const FINDINGS: readonly Column<Finding>[] = [
  { of: "kind", width: "112px", narrow: "96px", cell: ({ kind }) => inWords(kind) },
  { of: "status", width: "112px", isMinor: true, cell: ({ status }) => status && <Status word={status} /> },
  {
    ...{ head: "Name", width: "2fr" },
    cell: (one) => <bdi>{screenOf(one) ? <Link to={screenOf(one) ?? ""}>{one.title}</Link> : one.title}</bdi>,
  },
  {
    ...{ head: "Found by", width: "1fr", isMinor: true },
    cell: (one) => (
      <span class="quiet">
        {inWords(one.by)}
        {one.match === "prefix" && ", by prefix"}
        {!screenOf(one) && ` · GET ${one.url}`}
      </span>
    ),
  },
  { of: "at", head: "Since" },
];

function More({ search: { more, scanned: looked } }: { search: Search }) {
  return (
    <p class="quiet sources">
      {more.length > 0 && `More results exist for: ${inWords(more.join(", "))}. `}
      {looked.since !== null && (
        <>
          The search for a subject covers the newest {looked.instances.toLocaleString()} instances, accepted <Ago at={looked.since} /> or
          later.
        </>
      )}
    </p>
  );
}

const MINOR = { isMinor: true, isNumber: true } as const;

const HOLDERS: readonly Column<Holder>[] = [
  {
    ...{ head: "Held by", width: "1.4fr" },
    cell: ({ kind, id, name }) => (kind === "instance" ? <Link to={hrefOf("instances", id)}>{name}</Link> : `${name}, ${kind}`),
  },
  { of: "status", width: "112px", narrow: "104px" },
  { of: "correlation_id", head: "Job", isMinor: true },
  { head: "Payload", width: "144px", isMinor: true, cell: ({ fingerprint }) => <Id id={fingerprint} /> },
  { ...MINOR, head: "Received", width: "80px", cell: ({ deliveries }) => (deliveries === null ? "not kept" : `${deliveries} ×`) },
  { of: "since" },
  { ...MINOR, head: "Key held until", width: "112px", cell: ({ key_expires_at: at }) => (at ? <Ago at={at} /> : <Quiet of="running" />) },
];

function HeldKey({ held: { key, holders, captured, captured_truncated: isMore } }: { held: Key }) {
  const known = new Set(holders.map(({ fingerprint }) => fingerprint));
  return (
    <Section
      title={
        <>
          Holder of the key <bdi class="said">{key}</bdi>
        </>
      }
    >
      {holders.length === 0 ? (
        <p class="quiet">None: the key is free for each workflow and each event type.</p>
      ) : (
        <Table label="Holders of the key" rows={holders} columns={HOLDERS} nameOf={({ id, name }) => `${id} ${name}`} />
      )}
      <Lines
        columns="104px 1fr"
        of={captured.map((one) => [
          <Status key="is" word="dead letter" tone={one.state === "open" ? "red" : "quiet"} />,
          <>
            <Link to={hrefOf("dead-letters", one.dead_letter_id)}>
              {one.message_type ?? "unknown type"}, {one.reason}
            </Link>{" "}
            <span class="quiet">
              {one.state}, captured <Ago at={one.captured_at} /> ·{" "}
              {one.fingerprint === null
                ? "its payload is not readable"
                : known.has(one.fingerprint)
                  ? "the same payload as a holder's"
                  : "a payload other than any holder's"}
            </span>
          </>,
        ])}
      />
      {isMore && <p class="quiet">The newest {captured.length} dead letters with this key; there are more.</p>}
    </Section>
  );
}
