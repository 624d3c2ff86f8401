interface Order {
  order_id: string;
  cents: number;
  to: string;
}

const post = async (url: string, body: object) => {
  const answer = await fetch(url, { method: "POST", body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}.`);
  return answer.json<{ id: string }>();
};

/** Before: the request does all of the work, and the buyer waits for the bank and for the mail service. */
export default {
  async fetch(request: Request, { DB }: { DB: D1Database }): Promise<Response> {
    const { order_id, cents, to } = await request.json<Order>();
    await DB.prepare("INSERT INTO checkouts (order_id) VALUES (?1) ON CONFLICT DO NOTHING").bind(order_id).run();
    const { id } = await post("https://bank.example.com/charges", { order_id, cents });
    // A crash here charges the buyer, and the database has no record of it. The buyer's next click charges again.
    await DB.prepare("UPDATE checkouts SET charge = ?1 WHERE order_id = ?2").bind(id, order_id).run();
    await post("https://mail.example.com/send", { to, text: `Order ${order_id} is paid.` });
    return Response.json({ order_id }, { status: 201 });
  },
};
