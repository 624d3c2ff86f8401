import type { Detail } from "./whole.ts";

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
