import type { AlertRule } from "../../packages/millrace/src/alerts/rule.ts";
import { ALERT_RULES } from "../../packages/millrace/src/alerts/rules.ts";

/** The table of docs/alerts.md, generated from the rules: cells without the blanks between them. */
export function ruleLines(): string[] {
  return ALERT_RULES.map(({ name, gauge, per, warning, critical }) => {
    const labels = per.map((label) => `\`${label}\``).join(", ") || "all";
    return `| \`${name}\` | \`${gauge}\` | ${labels} | ${bound(warning)} | ${bound(critical)} |`;
  });
}

function bound(threshold: AlertRule["warning"]): string {
  if (threshold === undefined) return "never";
  const { above, forMs } = threshold;
  return `> ${above.toLocaleString("en")}${forMs === 0 ? " at once" : ` for ${forMs / 60_000} min`}`;
}
