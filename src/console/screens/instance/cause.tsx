import { hrefOf, Link } from "../../frame/router.tsx";
import { Ago } from "../../parts/time.tsx";
import type { Detail } from "./whole.ts";

/** Why an instance stands where it stands, in a sentence; nothing for one that is fine. */
export function Cause({ instance }: { instance: Detail }) {
  const { status, error, retrying, sleeping, waiting_for: waits } = instance;
  if (error && status !== "complete") {
    const where = error.step ? `${error.step} failed` : error.behind ? `The code threw behind ${error.behind}` : "The code threw";
    const often = error.attempts > 1 ? ` ${error.attempts} times` : "";
    return (
      <p class="cause" data-tone={status === "in_doubt" ? "orange" : "red"}>
        <bdi>
          {where}
          {often}: {error.message}
        </bdi>{" "}
        <span class="quiet">
          <Link to={hrefOf("instances", { status: "errored", workflow: instance.workflow })}>{error.code}</Link>
          {error.upstream_status !== undefined && ` · the upstream answered ${error.upstream_status}`}
        </span>
      </p>
    );
  }
  if (status === "in_doubt") {
    return (
      <p class="cause" data-tone="orange">
        Nobody knows whether an effect happened. Look at the receiving side, then answer it under Effects.
      </p>
    );
  }
  if (retrying) {
    return (
      <p class="cause" data-tone="amber">
        <bdi>
          {retrying.step} failed at attempt {retrying.attempt}: {retrying.error}
        </bdi>{" "}
        <span class="quiet">
          {retrying.next_at ? (
            <>
              again <Ago at={retrying.next_at} />
            </>
          ) : (
            "it is tried again"
          )}
        </span>
      </p>
    );
  }
  if (waits.length === 0 && !sleeping) return null;
  return (
    <ul class="cause" data-tone="violet">
      {waits.map(({ step, event_type, subject, until }) => (
        <li key={`${step} ${event_type}`}>
          <bdi>
            {step} waits for {event_type ?? "an answer"}
            {subject && ` about ${subject}`}
          </bdi>{" "}
          {until && (
            <span class="quiet">
              until <Ago at={until} />
            </span>
          )}
        </li>
      ))}
      {sleeping && (
        <li>
          {sleeping.step ?? "A step"} sleeps{" "}
          {sleeping.until && (
            <span class="quiet">
              until <Ago at={sleeping.until} />
            </span>
          )}
        </li>
      )}
    </ul>
  );
}
