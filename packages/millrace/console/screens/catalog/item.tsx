import { useCatalog } from "../../data/use-data.ts";
import { hrefOf, Link } from "../../frame/router.tsx";
import { Json } from "../../parts/json.tsx";
import { Empty, Facts, Pairs, Reading } from "../../parts/page.tsx";
import { Pausing } from "../../parts/pausing.tsx";
import { policyOf } from "../../parts/policy.ts";
import { duration, Quiet } from "../../parts/text.tsx";
import type { ScreenProps } from "../screen.ts";
import { opened, type Schema, wordsOf } from "../send/schema.ts";
import { ledTo, MessageLink } from "./catalog.tsx";
import type { Catalog } from "./graph.ts";
import "./catalog.css";

/** For each effect class, the engine's guarantee in the case that the outcome of an attempt is unknown. */
const CLASSES = {
  commit: "rows and messages in one atomic write: exactly once",
  keyed: "the upstream deduplicates by key: a repeat has no second effect",
  natural: "idempotent by nature: it is repeated",
  lookup: "before a repeat, the upstream is asked whether it happened",
  once: "never repeated automatically: an operator decides",
} as const;

export function CatalogItem({ param }: ScreenProps) {
  const { data, problem } = useCatalog();
  if (!data) return <Reading problem={problem} />;
  const at = param.indexOf(" ");
  const [kind, name] = [param.slice(0, at), param.slice(at + 1)];
  const workflow = data.workflows.find((one) => kind === "workflow" && one.name === name);
  const message = data.messages.find((one) => one.kind === kind && one.type === name);
  const queue = data.queues.find((one) => kind === "queue" && one.name === name);
  if (workflow) return <OfWorkflow workflow={workflow} seen={data.seen_instances} />;
  if (message) return <OfMessage message={message} catalog={data} />;
  if (queue) return <OfQueue queue={queue} catalog={data} />;
  return (
    <>
      <h1>{name || param}</h1>
      <Empty>
        The deployed catalog has no {kind || "thing"} of this name{kind === "event" && ": it is emitted, but nothing consumes it"}.{" "}
        <Link to={hrefOf("catalog")}>The whole catalog</Link>
      </Empty>
    </>
  );
}

function OfWorkflow({
  workflow: { name, on, steps, step_mode: mode, emits, deadline_seconds: deadline },
  seen,
}: {
  workflow: Catalog["workflows"][number];
  seen: number;
}) {
  return (
    <>
      <Title kind="workflow" name={name} />
      <Facts
        of={[
          [`started by the ${on.kind} `, <MessageLink key="on" {...on} />],
          mode === "lean" && "its steps run inline (lean)",
          deadline === null ? "no deadline" : `overdue after ${duration(deadline * 1000)}`,
          <Link to={hrefOf("instances", { workflow: name })}>Its instances</Link>,
          on.kind === "command" && <Link to={hrefOf("send", { message: `command ${on.type}` })}>Send one</Link>,
        ]}
      />
      <Pausing kind="workflow" name={name} workflows={[name]} />
      <h2>Steps</h2>
      {steps.length === 0 ? (
        <Empty>None of the newest {seen} instances ran this workflow. Its steps are known only after a run.</Empty>
      ) : (
        <>
          <ol class="catalog-steps">
            {steps.map((step) => (
              <li key={step.name}>
                <span>{step.name}</span>
                <strong>{step.class}</strong>
                <span class="quiet">{CLASSES[step.class]}</span>
              </li>
            ))}
          </ol>
          <p class="quiet">
            Steps with an effect, as observed in the newest {seen} instances, without reads, sleeps and waits. The page of an instance lists
            all of its steps.
          </p>
        </>
      )}
      <h2>Emits</h2>
      {emits.length === 0 ? <p class="quiet">Nothing observed.</p> : <Messages of={emits} />}
    </>
  );
}

function OfMessage({ message, catalog }: { message: Catalog["messages"][number]; catalog: Catalog }) {
  const { kind, type, version, queue, door, payload_schema } = message;
  const schema = payload_schema as Schema;
  const fields = Object.entries(opened(schema).properties ?? {});
  const emitters = catalog.workflows.filter(({ emits }) => emits.some((one) => one.kind === kind && one.type === type));
  const senders = catalog.messages.filter(({ follows }) => kind === "command" && follows.some((one) => one.type === type));
  return (
    <>
      <Title kind={kind} name={type} />
      <Facts
        of={[
          `version ${version}`,
          [
            "on ",
            <Link key="queue" to={hrefOf("catalog", `queue ${queue}`)}>
              {queue}
            </Link>,
          ],
          door === null
            ? "only this deployment emits it"
            : door.scope === null
              ? `no token may send it directly: ${door.route}`
              : `${door.route}, with ${door.scope}`,
          door?.scope && <Link to={hrefOf("send", { message: `${kind} ${type}` })}>Send it</Link>,
        ]}
      />
      <h2>Consumers</h2>
      <ul>
        {ledTo(message, catalog.workflows).map((one) => (
          <li key={one}>
            {catalog.workflows.some(({ name }) => name === one) ? (
              <Link to={hrefOf("catalog", `workflow ${one}`)}>{one}</Link>
            ) : catalog.messages.some((other) => other.kind === "command" && other.type === one) ? (
              <MessageLink kind="command" type={one} />
            ) : (
              one
            )}
          </li>
        ))}
        {ledTo(message, catalog.workflows).length === 0 && <li class="quiet">none: no workflow or route consumes it yet</li>}
      </ul>
      <h2>Comes from</h2>
      <ul>
        {door?.scope && <li>outside, by {door.route}</li>}
        {emitters.map(({ name }) => (
          <li key={name}>
            <Link to={hrefOf("catalog", `workflow ${name}`)}>{name}</Link> <span class="quiet">observed</span>
          </li>
        ))}
        {senders.map((one) => (
          <li key={one.type}>
            <MessageLink {...one} />
          </li>
        ))}
        {!door?.scope && emitters.length + senders.length === 0 && <li class="quiet">nothing observed lately</li>}
      </ul>
      <h2>Payload</h2>
      <ul class="catalog-fields">
        {fields.map(([name, one]) => (
          <li key={name}>
            <code>{name}</code>
            <span class="quiet">{[schema.required?.includes(name) ? "" : "optional", wordsOf(one)].filter(Boolean).join(" · ")}</span>
          </li>
        ))}
      </ul>
      <details>
        <summary class="quiet">As JSON Schema</summary>
        <Json value={payload_schema} label="JSON Schema" />
      </details>
    </>
  );
}

const POLICY: Readonly<Record<string, string>> = {
  Retries: "number of retries; first and longest delay",
  Batch: "messages at most; longest wait for them",
  Concurrency: "batches at the same time; for a lane, instances of one key",
  Priorities: "commands may set a priority",
};

function OfQueue({ queue, catalog }: { queue: Catalog["queues"][number]; catalog: Catalog }) {
  const { name, is_lane, carries } = queue;
  const messages = catalog.messages.filter((one) => one.queue === name);
  const started = catalog.workflows.filter(({ on }) => messages.some(({ kind, type }) => kind === on.kind && type === on.type));
  return (
    <>
      <Title kind={is_lane ? "lane" : "queue"} name={name} />
      <Facts of={[is_lane ? `${carries}, one after another for each key` : carries, <Link to={hrefOf("queues")}>Health</Link>]} />
      {carries === "commands" && <Pausing kind="queue" name={name} workflows={started.map((one) => one.name)} />}
      <h2>Policy</h2>
      <Pairs
        of={Object.fromEntries(
          Object.entries(policyOf(queue)).map(([what, said]) => [what, [said, " ", <Quiet key="what" of={POLICY[what] ?? ""} />]]),
        )}
      />
      <h2>Messages</h2>
      <Messages of={messages} />
    </>
  );
}

function Messages({ of }: { of: readonly { kind: "command" | "event"; type: string }[] }) {
  return (
    <ul>
      {of.map((one) => (
        <li key={`${one.kind} ${one.type}`}>
          <MessageLink {...one} /> <span class="quiet">{one.kind}</span>
        </li>
      ))}
      {of.length === 0 && <li class="quiet">none declared</li>}
    </ul>
  );
}

function Title({ kind, name }: { kind: string; name: string }) {
  return (
    <h1>
      <Quiet of={kind} /> {name}
    </h1>
  );
}
