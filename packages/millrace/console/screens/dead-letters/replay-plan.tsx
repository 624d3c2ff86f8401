import { hrefOf, Link } from "../../frame/router.tsx";
import { Id } from "../../parts/id.tsx";
import { Status } from "../../parts/status.tsx";
import type { ReplayPlan } from "./draft.ts";

export function PlanOfReplay({ plan: { outcome, why, queue, identity, instance }, came }: { plan: ReplayPlan; came: ReplayPlan }) {
  const isOtherWork = identity !== null && came.identity !== null && identity.fingerprint !== came.identity.fingerprint;
  return (
    <>
      <p>
        <Status word={outcome} /> <bdi>{why}</bdi>
      </p>
      <dl class="pairs">
        {identity && (
          <>
            <dt>Key</dt>
            <dd>
              <bdi>{identity.idempotency_key}</bdi>{" "}
              {instance ? (
                <Link to={hrefOf("instances", instance.id)}>its instance is {instance.status.replaceAll("_", " ")}</Link>
              ) : (
                <span class="quiet">no instance has it</span>
              )}
            </dd>
            <dt>Subject</dt>
            <dd>
              <bdi>{identity.subject}</bdi>
            </dd>
            <dt>Type</dt>
            <dd>
              <bdi>{identity.message_type}</bdi> <span class="quiet">of</span> <bdi>{identity.tenant_id}</bdi>
            </dd>
            <dt>Payload</dt>
            <dd>
              <Id id={identity.fingerprint} /> <span class="quiet">{isOtherWork ? "changed" : "unchanged"}</span>
            </dd>
          </>
        )}
        {queue && (
          <>
            <dt>To</dt>
            <dd>the queue {queue}</dd>
          </>
        )}
      </dl>
      {!identity && <p class="quiet">The message has no readable key.</p>}
    </>
  );
}
