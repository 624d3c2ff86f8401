import { hrefOf, Link } from "../../frame/router.tsx";
import { Json } from "../../parts/json.tsx";
import { Status } from "../../parts/status.tsx";
import type { Message } from "./whole.ts";

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
