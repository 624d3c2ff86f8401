import { useEffect, useRef, useState } from "preact/hooks";
import { type Answer, post, quoted, send } from "../../data/api.ts";
import { tell } from "../../data/notices.ts";
import { operationAt } from "../../data/operations.ts";
import type { Problem } from "../../data/problem.ts";
import { controlOf, exampleOf, type Schema } from "../../data/schema.ts";
import { may } from "../../data/session.ts";
import { useCatalog, useData, useShown } from "../../data/use-data.ts";
import { jsonText, readJson, Written, writtenJson, wrongIn } from "../../data/written.ts";
import { useFilters } from "../../frame/filters.tsx";
import { go, hrefOf, Link, onConfirm, setFilters } from "../../frame/router.tsx";
import { usePlan } from "../../parts/act.tsx";
import { Fields, JsonField, type Told } from "../../parts/form.tsx";
import { JsonText } from "../../parts/json.tsx";
import { Empty, Issues, ProblemNote, Reading } from "../../parts/page.tsx";
import { answerIn, Before, curlOf, keyIn, requestOf } from "./before.tsx";
import "./send.css";

const FILTERS = { message: { label: "Message" }, example: { label: "Example" }, as: { label: "As" } } as const;

type Catalog = Answer<"/v1/catalog">;
type Message = Catalog["messages"][number];

/** Kind and type together identify a message type, because a command and an event may have the same type. */
const nameOf = ({ kind, type }: Pick<Message, "kind" | "type">) => `${kind} ${type}`;

export function Send() {
  const { data: catalog, problem } = useCatalog();
  return (
    <>
      <h1>Send</h1>
      {catalog ? <Choice catalog={catalog} /> : <Reading problem={problem} />}
    </>
  );
}

function Choice({ catalog: { messages, first_command: first } }: { catalog: Catalog }) {
  const set = useFilters(FILTERS);
  const open = messages.filter(({ access }) => access !== null && access.scope !== null);
  const asked = set.message ?? (first ? nameOf({ kind: "command", type: first.type }) : undefined);
  const found = open.find((one) => nameOf(one) === asked || one.type === asked);
  const message = found ?? open[0];
  if (!message)
    return (
      <Empty command={'defineEvent({ …, access: { scope: "enqueue" } })'}>
        Nothing can be sent from outside: no workflow handles a command, and no event declares an access.
      </Empty>
    );
  const isFirst = first !== null && first.type === message.type && set.example === "first";
  return (
    <>
      <label class="field send-which">
        Message
        <select value={nameOf(message)} onChange={(event) => setFilters({ message: event.currentTarget.value, example: undefined })}>
          {(["command", "event"] as const).map((kind) => (
            <optgroup key={kind} label={kind === "command" ? "Commands: each starts one workflow" : "Events: delivered to all consumers"}>
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
      {set.message !== undefined && !found && (
        <p class="problem" role="alert">
          No message <bdi>{set.message}</bdi> can be sent from outside. Choose another one.
        </p>
      )}
      {first && isFirst && <p class="send-first">{first.why}</p>}
      <Draft
        key={`${nameOf(message)} ${isFirst}`}
        message={message}
        {...(isFirst && { first: first.payload })}
        isJson={set.as === "json"}
      />
    </>
  );
}

function Draft({ message, first, isJson }: { message: Message; first?: unknown; isJson: boolean }) {
  const { kind, type, access } = message;
  const schema = message.payload_schema as Schema;
  const [example] = useState(() => first ?? exampleOf(schema));
  const [payload, setPayload] = useState(example);
  const [options, setOptions] = useState<Readonly<Record<string, unknown>>>({});
  const { data: operation } = useData(() => operationAt("POST", `/v1/${kind}s`), [kind]);
  const [isAll, tellAll] = useState(false);
  const [problem, setProblem] = useState<Problem | undefined>();
  const [isSending, setSending] = useState(false);
  const isUnderWay = useRef(false);
  const isShown = useShown();
  const lacks = ["enqueue", access?.scope ?? "enqueue"].find((scope) => !may(scope));
  const key = keyIn(options);
  const wrong = [...wrongIn(payload, "payload"), ...wrongIn(options, "options")];
  const body = { kind, type, payload, ...(key && { idempotency_key: key }) };
  const check = () => post("/v1/catalog/check", { body });
  const { plan: found } = usePlan(check, jsonText(body), lacks === undefined && wrong.length === 0);
  const issues = (found?.ok ? found.data.refused?.issues : found?.problem.issues) ?? [];
  const told = { issues: new Map(issues.map((one) => [one.path, one.message])), isAll };
  const { type: _type, payload: _payload, ...others } = operation?.fields.properties ?? {};
  const request = requestOf({ kind, type, payload, options });
  const asSent = jsonText(request.body, "  ");
  const shown = useRef(asSent);
  shown.current = asSent;
  // The problem of an earlier request is removed when the user changes the request.
  useEffect(() => setProblem(undefined), [asSent, request.key]);
  const isGood = wrong.length === 0 && found?.ok && ["new", "repeat"].includes(found.data.outcome) && found.data.key !== null;

  const submit = async () => {
    tellAll(true);
    if (!isGood || lacks || isUnderWay.current) return;
    isUnderWay.current = true;
    setSending(true);
    const result = answerIn(await send("POST", request.path, { body: request.body, ...(request.key && { key: request.key }) }));
    isUnderWay.current = false;
    setSending(false);
    const { instance_id: instance, correlation_id: id } = result.ok ? result.data : {};
    const href = instance ? hrefOf("instances", instance) : id && hrefOf("instances", { correlation: id });
    // The page opens the new instance only if the user still views this message.
    if (!isShown.current || shown.current !== asSent)
      tell({ said: result.ok ? `${type} was accepted.` : `${type} was refused: ${result.problem.title}.`, href });
    else if (href) go(href);
    else if (!result.ok) setProblem(result.problem);
  };
  return (
    <form
      class="send"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
      onKeyDown={onConfirm(submit)}
    >
      <section aria-label="Message">
        <p class="quiet">
          <Link to={hrefOf("catalog", nameOf(message))}>{type} in the catalog</Link>
        </p>
        <Says {...{ schema, payload, isJson }} change={setPayload} told={told} />
        <details class="send-more" open={kind === "event"}>
          <summary>Options</summary>
          <Fields
            schema={{
              type: "object",
              properties: { idempotency_key: { type: "string", format: "key", description: KEYS[kind] }, ...others },
            }}
            value={options}
            set={(next) => setOptions(next as typeof options)}
            told={told}
          />
        </details>
      </section>
      <section aria-label="Check" class="send-before">
        <h2>Check</h2>
        <div aria-live="polite">
          {lacks !== undefined ? (
            <Lacks scope={lacks} />
          ) : wrong.length > 0 ? (
            <div class="wrong">
              <Issues of={wrong} />
            </div>
          ) : (
            <Before kind={kind} found={found} isBegun={isAll || payload !== example || key !== ""} />
          )}
        </div>
        {problem && <ProblemNote problem={problem} />}
        <p class="acts">
          <button class="main" type="submit" disabled={!isGood || lacks !== undefined || isSending}>
            {found?.ok && found.data.outcome === "repeat" ? "Send again" : "Send"}
          </button>
          <span class="quiet">
            <kbd>Ctrl+Enter</kbd>
          </span>
        </p>
        <h2>Request</h2>
        <p class="quiet">
          POST {request.path}
          {request.key && (
            <>
              , Idempotency-Key: <bdi>{quoted(request.key)}</bdi>
            </>
          )}
        </p>
        <JsonText text={asSent} label="The body" others={{ "Copy as curl": curlOf(request) }} />
      </section>
    </form>
  );
}

interface SaysProps {
  schema: Schema;
  payload: unknown;
  change: (payload: unknown) => void;
  isJson: boolean;
  told: Told;
}

function Says({ schema, payload, change, isJson, told }: SaysProps) {
  const text = jsonText(payload, "  ");
  const read = payload instanceof Written ? readJson(text) : { value: payload };
  const isForm = !isJson && controlOf(schema) === "group";
  return (
    <>
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
      </div>
      {isForm && "why" in read && <p class="send-first">The form cannot show this payload: {read.why} Correct it here.</p>}
      {!isForm || "why" in read ? (
        <JsonField label="Payload" text={text} change={(next) => change(writtenJson(next))} />
      ) : (
        <Fields {...{ schema, value: read.value, path: "payload", told }} set={change} />
      )}
    </>
  );
}

const KEYS = {
  event: "identifies the event: a repeat with the same key has no effect",
  command: "default: derived from the content, as shown",
} as const;

function Lacks({ scope }: { scope: string }) {
  return (
    <p class="problem">
      Your token may not send this: it lacks the scope <code>{scope}</code>.{" "}
      {may("tokens") ? (
        <>
          <Link to={hrefOf("settings", "tokens")}>Mint a token</Link> with this scope and sign in with it.
        </>
      ) : (
        "Ask the issuer of your token for one with this scope. Or fill in the form, copy it as curl, and ask another user to send it."
      )}
    </p>
  );
}
