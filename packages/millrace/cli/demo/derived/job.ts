/** The story's world: a shop that owes a fee for each sale, and partners who earn a share. */
export const SHOP = "shop";
export const RUSH = "rush";
export const PARTNER = "ada";

export const SHOP_LIMIT = 20_000;
export const RUSH_LIMIT = 10_000;
/** What each of the thousand asks for: the limit is enough for 400 of them. */
export const RUSH_CENTS = 25;
export const RUSH_ASKS = 1000;
export const ORDER_CENTS = 6_000;

export const RULES = [
  { name: "refund", when: [{ field: "subtype", op: "is", value: "refund" }] },
  {
    name: "large sale",
    when: [
      { field: "subtype", op: "is", value: "sale" },
      { field: "value_cents", op: "at_least", value: 50_000 },
    ],
    charge: { percent: 2.5, max: 2_000 },
    payout: { percent: 10 },
  },
  { name: "sale", when: [{ field: "subtype", op: "is", value: "sale" }], charge: { percent: 5, min: 50 }, payout: { percent: 8 } },
] as const;

/** Outcomes, and what the rules make of them: worked out by hand. */
export const SALES = [
  { id: "sale-1", subtype: "sale", value: 9_990, rule: "sale", charge: 500, payout: 799 },
  { id: "sale-2", subtype: "sale", value: 120, rule: "sale", charge: 50, payout: 10 },
  { id: "sale-3", subtype: "sale", value: 99_900, rule: "large sale", charge: 2_000, payout: 9_990 },
  { id: "refund-1", subtype: "refund", value: 120, rule: "refund", charge: null, payout: null },
] as const;

/** A chain, and a circle. */
const MERGES = [
  ["ann", "anna"],
  ["anna", "anna.smith"],
  ["bob", "rob"],
  ["rob", "robert"],
  ["robert", "bob"],
] as const;
export const KNOWN_AS = { ann: "anna.smith", anna: "anna.smith", bob: "robert", rob: "robert", robert: "robert" } as const;

const occurred = (minute: number) => new Date(Date.UTC(2026, 9, 1, 9, minute)).toISOString();

export const outcomeOf = ({ subtype, value }: { subtype: string; value: number }, hold?: string) => ({
  subtype,
  payload: { account: SHOP, partner: PARTNER, value_cents: value, ...(hold && { hold }) },
});

export const saleFacts = SALES.map((sale, index) => ({
  fact_id: sale.id,
  entity: `order/${sale.id}`,
  type: "outcome",
  occurred_at: occurred(index),
  ...outcomeOf(sale),
}));

/** The outcome of an order that something was held for. */
export const orderFact = (hold: string) => ({
  fact_id: "order-1",
  entity: "order/order-1",
  type: "outcome",
  occurred_at: occurred(30),
  ...outcomeOf({ subtype: "sale", value: 40_000 }, hold),
});
/** 5% of it. */
export const ORDER_CHARGE = 2_000;
export const ORDER_PAYOUT = 3_200;

export const mergeFacts = MERGES.map(([from, into], index) => ({
  fact_id: `merge-${index + 1}`,
  entity: "contacts",
  type: "contact_merged",
  occurred_at: occurred(index),
  payload: { from, into },
}));
