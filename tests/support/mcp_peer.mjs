// Two MCP hosts of the JavaScript client, one thread, a vote and an answer.
//
//   node mcp_peer.mjs CLIENT-MODULE URL ADA-TOKEN BOB-TOKEN ERA
//
// Prints one line of JSON: what each step gave.
const [module, url, adaToken, bobToken, era] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } = await import(module);

async function host(name, token) {
  const options = era === 'auto' ? { versionNegotiation: { mode: 'auto' } } : {};
  const client = new Client({ name, version: '1' }, options);
  await client.connect(
    new StreamableHTTPClientTransport(new URL(url), {
      requestInit: { headers: { Authorization: `Bearer ${token}` } },
    }),
  );
  const call = async (tool, args = {}) => {
    const result = await client.callTool({ name: tool, arguments: args });
    if (result.isError) throw new Error(`${tool}: ${JSON.stringify(result.content)}`);
    return result.structuredContent;
  };
  return { client, call };
}

const ada = await host('ada', adaToken);
const bob = await host('bob', bobToken);
const tools = (await ada.client.listTools()).tools.map((tool) => tool.name);
const me = (await bob.call('list_agents')).you;
const { thread_id } = await ada.call('create_thread', { name: 'Sum', participants: [me] });

const waiting = bob.call('wait_for_mentions', { timeout_s: 20 });
await ada.call('send_message', { thread_id, content: 'What is 2+2?', mentions: [me] });
const asked = await waiting;
const [question] = asked.messages;
await bob.call('reply', { thread_id, message_id: question.message_id, content: 'four' });
const answer = (await ada.call('wait_for_mentions', { timeout_s: 20 })).messages[0];

const proposal = await ada.call('propose', { thread_id, content: 'It is four.', voters: [me] });
const put = await bob.call('wait_for_mentions', { timeout_s: 20, cursor: asked.cursor });
await bob.call('vote', {
  thread_id,
  proposal_id: put.messages[0].message_id,
  verdict: 'approve',
  reasons: ['I said so.'],
});
const votes = await ada.call('wait_for_votes', { thread_id, proposal_id: proposal.message_id });
const end = bob.call('wait_for_mentions', { timeout_s: 20, cursor: put.cursor });
await ada.call('submit_answer', { thread_id, content: 'four', sources: [answer.message_id] });
const closed = await end;

const refused = await bob.client.callTool({
  name: 'send_message',
  arguments: { thread_id, content: 'late' },
});
console.log(
  JSON.stringify({
    tools,
    question: question.text,
    answer: answer.text,
    reached: votes.reached,
    closed: closed.status,
    refused: refused.isError,
    task: thread_id.split('/')[0],
  }),
);
await ada.client.close();
await bob.client.close();
process.exit(0);
