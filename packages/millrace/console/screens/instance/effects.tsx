import { hrefOf, Link } from "../../frame/router.tsx";
import { Json } from "../../parts/json.tsx";
import { Button } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Ago } from "../../parts/text.tsx";
import { labelOf } from "./step.ts";
import { type Detail, type Effect, type Message, UNDO_STEP } from "./whole.ts";

const WORDS: Readonly<Record<string, string>> = { superseded: "undone, or run again" };

interface EffectsProps {
  effects: readonly Effect[];
  correct: ((effect: Effect) => void) | undefined;
}

const isGiven = ({ step, state, skipped }: Effect) =>
  !step.startsWith(UNDO_STEP) && (state === "confirmed" || (state === "done" && skipped));

export function Effects({ effects, correct }: EffectsProps) {
  if (effects.length === 0) return null;
  return (
    <section aria-label="Effects">
      <h2>Effects</h2>
      <ul class="things">
        {effects.map((effect) => {
          const { key, step, state, generation, error, updated_at: at, output, output_ref: ref, input } = effect;
          return (
            <li key={key}>
              <details>
                <summary>
                  <bdi>{labelOf(effect)}</bdi>
                  <Status word={effect.skipped ? "skipped" : (WORDS[state] ?? state)} />
                  <span class="quiet">
                    {effect.class}
                    {generation > 1 && `, run ${generation} times`} · <Ago at={at} />
                  </span>
                </summary>
                {error && <bdi class="said">{error.message}</bdi>}
                {input !== null && <Json label={`Input of ${step}`} value={input} />}
                {ref ? <p class="quiet">The output is stored as {ref}.</p> : <Json label={`Output of ${step}`} value={output} />}
                {correct && isGiven(effect) && (
                  <p class="acts">
                    <Button press={() => correct(effect)}>Replace the output</Button>
                  </p>
                )}
              </details>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

export function Messages({ messages }: { messages: readonly Message[] }) {
  if (messages.length === 0) return null;
  return (
    <section aria-label="Sent messages">
      <h2>Sent messages</h2>
      <ul class="things">
        {messages.map((message) => (
          <li key={`${message.kind} ${message.message_type} ${message.idempotency_key}`}>
            <details>
              <summary>
                <span>
                  {message.kind} <code>{message.message_type}</code>
                </span>
                <Status word={message.confirmed ? "delivered" : "in_transit"} />
                <span class="quiet">
                  of {message.step} · <bdi>{message.subject}</bdi>
                </span>
              </summary>
              <Json label={`Payload of ${message.message_type}`} value={message.payload_ref ?? message.payload_inline} />
              <p class="quiet">
                key <code>{message.idempotency_key}</code> · <Link to={hrefOf("jobs", message.correlation_id)}>job</Link>
              </p>
            </details>
          </li>
        ))}
      </ul>
    </section>
  );
}

export function Cost({ cost: { usd, messages, parts } }: { cost: Detail["cost"] }) {
  const said = Object.entries(parts).filter(([, { amount }]) => amount > 0);
  return (
    <section aria-label="Cost">
      <h2>Cost</h2>
      <p>
        ${usd.toPrecision(2)} <span class="quiet">by list prices · {messages === 1 ? "1 message" : `${messages} messages`}</span>
      </p>
      <p class="quiet">
        {said
          .map(
            ([part, { amount, mark }]) =>
              `${part.replaceAll("_", " ")} ${mark === "estimated" ? "about " : ""}${Number(amount.toPrecision(3))}`,
          )
          .join(" · ")}
      </p>
    </section>
  );
}
