// An A2A client of @a2a-js/sdk: drives a gateway and prints what it saw as one line of JSON.
//
//   NODE_PATH=… node a2a_client.cjs URL BINDING
const { ClientFactory, ClientFactoryOptions } = require('@a2a-js/sdk/client');

const part = (value) => ({ content: { $case: 'text', value }, filename: '', mediaType: '' });
const message = (messageId, text, more = {}) => ({
  message: {
    messageId, role: 1, parts: [part(text)], contextId: '', taskId: '', extensions: [],
    referenceTaskIds: [], ...more,
  },
  tenant: '',
});
const name = (state) =>
  ['unspecified', 'submitted', 'working', 'completed', 'failed', 'canceled', 'input-required',
    'rejected', 'auth-required'][state];

async function main() {
  const [url, binding] = process.argv.slice(2);
  const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
    preferredTransports: [binding],
  });
  const client = await new ClientFactory(options).createFromUrl(url);
  const id = (text) => `${text}-js-${binding}`;

  const seen = { states: [], pieces: [] };
  for await (const { payload } of client.sendMessageStream(
    message(id('tck-stream-artifact-chunked'), 'hello \u2028 there'))) {
    if (payload.$case === 'artifactUpdate') {
      seen.pieces.push(...payload.value.artifact.parts.map((one) => one.content.value));
    } else {
      seen.states.push(name(payload.value.status.state));
    }
  }
  const asked = await client.sendMessage(message(id('tck-input-required'), 'begin'));
  seen.asked = name(asked.status.state);
  const done = await client.sendMessage(message(id('answer'), 'net', { taskId: asked.id }));
  seen.done = name(done.status.state);
  seen.sameContext = done.contextId === asked.contextId;
  seen.read = name((await client.getTask({ id: asked.id, tenant: '' })).status.state);
  try {
    await client.cancelTask({ id: asked.id, tenant: '' });
  } catch (error) {
    seen.cancel = error.name || error.constructor.name;
  }
  const listed = await client.listTasks({
    tenant: '', contextId: asked.contextId, status: 0, pageToken: '', includeArtifacts: false,
  });
  seen.listed = listed.tasks.map((task) => task.id).includes(asked.id);
  console.log(JSON.stringify(seen));
}

main().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
