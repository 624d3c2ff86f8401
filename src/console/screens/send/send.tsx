import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Answer, get, send } from "../../data/api.ts";
import type { Problem } from "../../data/problem.ts";
import { may } from "../../data/session.ts";
import { useData } from "../../data/use-data.ts";
import { useFilters } from "../../frame/filters.tsx";
import { go, hrefOf, Link, setFilters } from "../../frame/router.tsx";
import { JsonField, parsed } from "../../parts/answer.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Json } from "../../parts/json.tsx";
import { ProblemNote } from "../../parts/problem.tsx";
import { Before, useCheck } from "./before.tsx";
import { Fields } from "./form.tsx";
import { controlOf, exampleOf, type Schema } from "./schema.ts";
import "./send.css";

type Catalog = Answer<"/v1/catalog">;
type Message = Catalog["messages"][number];

const FILTERS = { message: { label: "Message" }, example: { label: "Example" }, as: { label: "As" } } as const;

/** A message's name among those that there are: a command and an event may be called alike. */
const nameOf = ({ kind, type }: Pick<Message, "kind" | "type">) => `${kind} ${type}`;

/** Sends any message that this deployment takes from outside, by a form of its own or as JSON. */
export function Send() {
  const { data: catalog, problem } = useData(
    () => get("/v1/catalog"),
    [],
    () => false,
  );
  const set = useFilters(FILTERS);
  if (!catalog) return <Frame>{problem ? <ProblemNote problem={problem} /> : <p class="quiet">Reading …</p>}</Frame>;
  const open = catalog.messages.filter(({ door }) => door !== null && door.scope !== null);
  const first = catalog.first_command;
  const asked = set.message ?? (first ? nameOf({ kind: "command", type: first.type }) : undefined);
  const message = open.find((one) => nameOf(one) === asked || one.type === asked) ?? open[0];
  if (!message)
    return (
      <Frame>
        <Empty command={'defineEvent({ …, door: { scope: "enqueue" } })'}>
          Nothing can be sent from outside: no workflow performs a command yet, and no event has a door.
        </Empty>
      </Frame>
    );
  const isFirst = first !== null && first.type === message.type && set.example === "first";
  return (
    <Frame>
      <label class="field send-which">
        Message
        <select value={nameOf(message)} onChange={(event) => setFilters({ message: event.currentTarget.value, example: undefined })}>
          {(["command", "event"] as const).map((kind) => (
            <optgroup key={kind} label={kind === "command" ? "Commands: asked of one workflow" : "Events: told to whoever follows"}>
              {open
                .filter((one) => one.kind === kind)
                .map((one) => (
                  <option key={one.type} value={nameOf(one)}>
                    {one.type}
                  </option>
                ))}
            </optgroup>
          ))}
        </select>
      </label>
      {first && isFirst && <p class="send-first">{first.why}</p>}
      <Draft
        key={`${nameOf(message)} ${isFirst}`}
        message={message}
        example={isFirst ? first.payload : exampleOf(message.payload_schema as Schema)}
        isJson={set.as === "json"}
      />
    </Frame>
  );
}

function Frame({ children }: { children: ComponentChildren }) {
  return (
    <>
      <h1>Send</h1>
      {children}
    </>
  );
}

/** One message on its way to be sent: what it says on the left, what would come of it on the right. */
function Draft({ message, example, isJson }: { message: Message; example: unknown; isJson: boolean }) {
  const { kind, type, door, performer, queue, payload_schema } = message;
  const schema = payload_schema as Schema;
  const [payload, setPayload] = useState<unknown>(example);
  const [text, setText] = useState(() => JSON.stringify(example, null, 2));
  const [key, setKey] = useState("");
  const [job, setJob] = useState("");
  const [problem, setProblem] = useState<Problem | undefined>();
  const [isSending, setSending] = useState(false);
  const isUnderWay = useRef(false);
  // What is typed as JSON counts once it is some.
  useEffect(() => setText(JSON.stringify(payload, null, 2) ?? ""), [isJson]);
  const found = useCheck({ kind, type, payload, key: key.trim() });
  const issues = new Map(found?.ok ? (found.data.refused?.issues ?? []).map(({ path, message: said }) => [path, said]) : []);
  const lacks = door?.scope && !may(door.scope) ? door.scope : undefined;
  const isGood = found?.ok && ["new", "repeat"].includes(found.data.outcome) && found.data.key !== null;
  const sent = { type, payload, ...(job.trim() && { correlation_id: job.trim() }) };

  const submit = async () => {
    if (!isGood || lacks || isUnderWay.current) return;
    isUnderWay.current = true;
    setSending(true);
    const result = await send("POST", kind === "command" ? "/v1/commands" : "/v1/events", {
      body: sent,
      ...(key.trim() && { key: key.trim() }),
    });
    isUnderWay.current = false;
    setSending(false);
    if (!result.ok) return setProblem(result.problem);
    const { instance_id: instance, correlation_id: of } = result.data as { instance_id?: string; correlation_id: string };
    go(instance ? hrefOf("instances", instance) : hrefOf("instances", { correlation: of }));
  };
  return (
    <form
      class="send"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
      onKeyDown={(event) => {
        if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        void submit();
      }}
    >
      <section aria-label="What it says">
        <p class="quiet">
          {performer ? (
            <>
              Performed by <Link to={hrefOf("catalog", `workflow ${performer}`)}>{performer}</Link>,
            </>
          ) : (
            "Told"
          )}{" "}
          by the queue {queue}. <Link to={hrefOf("catalog", nameOf(message))}>What it is</Link>
        </p>
        <div class="send-as">
          {(["form", "json"] as const).map((as) => (
            <button
              key={as}
              type="button"
              aria-pressed={(as === "json") === isJson}
              onClick={() => setFilters({ as: as === "json" ? as : undefined })}
            >
              {as === "json" ? "JSON" : "Form"}
            </button>
          ))}
          <button type="button" class="plain" onClick={() => [setPayload(example), setText(JSON.stringify(example, null, 2))]}>
            Its example again
          </button>
        </div>
        {isJson || controlOf(schema) !== "group" ? (
          <JsonField
            label="Payload"
            text={text}
            change={(next) => {
              setText(next);
              setPayload(parsed(next)?.value);
            }}
          />
        ) : (
          <Fields schema={schema} value={payload} set={setPayload} path="payload" issues={issues} />
        )}
        <details class="send-more" open={kind === "event"}>
          <summary>Its key and its job</summary>
          <label class="field">
            <span>
              Key{" "}
              <span class="quiet send-hint">
                {kind === "event" ? "names the event: the same key is the same event" : "default: as shown beside it, from what it says"}
              </span>
            </span>
            <input
              type="text"
              autocomplete="off"
              spellcheck={false}
              maxLength={500}
              value={key}
              onInput={(event) => setKey(event.currentTarget.value)}
            />
          </label>
          <label class="field">
            <span>
              Job <span class="quiet send-hint">default: a new one</span>
            </span>
            <input
              type="text"
              autocomplete="off"
              spellcheck={false}
              maxLength={200}
              value={job}
              onInput={(event) => setJob(event.currentTarget.value)}
            />
          </label>
        </details>
      </section>
      <section aria-label="What would come of it" class="send-before">
        <h2>Before it goes</h2>
        <div aria-live="polite">
          {payload === undefined ? <p class="wrong">The payload is no JSON yet.</p> : <Before kind={kind} found={found} />}
        </div>
        {lacks && (
          <p class="problem">
            Your token lacks the scope <code>{lacks}</code>, which {type} needs. The route made for it is <code>{door?.route}</code>.
          </p>
        )}
        {problem && <ProblemNote problem={problem} />}
        <p class="acts">
          <button class="main" type="submit" disabled={!isGood || lacks !== undefined || isSending}>
            {found?.ok && found.data.outcome === "repeat" ? "Send again" : "Send"}
          </button>
          <span class="quiet">
            <kbd>Ctrl+Enter</kbd>
          </span>
        </p>
        <h2>As it is sent</h2>
        <p class="quiet">
          POST {kind === "command" ? "/v1/commands" : "/v1/events"}
          {key.trim() && (
            <>
              , Idempotency-Key: <bdi>{key.trim()}</bdi>
            </>
          )}
        </p>
        <Json value={sent} label="The body" />
      </section>
    </form>
  );
}
