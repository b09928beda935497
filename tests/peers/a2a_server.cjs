// An A2A server of @a2a-js/sdk that says what it heard; prints its URL.
//
//   NODE_PATH=… node a2a_server.cjs
const express = require('express');
const { DefaultRequestHandler, InMemoryTaskStore, AgentEvent } = require('@a2a-js/sdk/server');
const { agentCardHandler, jsonRpcHandler, UserBuilder } = require('@a2a-js/sdk/server/express');

class Executor {
  async execute(context, bus) {
    const text = context.userMessage.parts.map((one) => one.content.value).join('');
    const about = { taskId: context.taskId, contextId: context.contextId };
    const parts = (value) => [{ content: { $case: 'text', value }, filename: '', mediaType: '' }];
    const status = (state, words) => AgentEvent.statusUpdate({
      ...about,
      status: {
        state,
        message: words && {
          ...about, messageId: `${context.taskId}-${state}`, role: 2, parts: parts(words),
          extensions: [], referenceTaskIds: [],
        },
        timestamp: new Date().toISOString(),
      },
    });
    bus.publish(AgentEvent.task(context.task || {
      id: context.taskId, contextId: context.contextId, artifacts: [],
      history: [context.userMessage],
      status: { state: 1, timestamp: new Date().toISOString() },
    }));
    if (text === 'ask') {
      bus.publish(status(6, 'gross or net?'));
    } else {
      bus.publish(status(2, 'on it'));
      bus.publish(AgentEvent.artifactUpdate({
        ...about, append: false, lastChunk: true,
        artifact: {
          artifactId: 'a', name: 'notes', description: '', extensions: [],
          parts: parts('a note\u2028of two lines'),
        },
      }));
      bus.publish(status(3, `heard ${text}`));
    }
    bus.finished();
  }

  async cancelTask() {}
}

const app = express();
const server = app.listen(0, '127.0.0.1', () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const card = {
    name: 'js', description: 'Hears.', version: '1',
    supportedInterfaces: [
      { url: `${url}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0', tenant: '' },
    ],
    capabilities: { streaming: true, pushNotifications: true, extensions: [] },
    defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'],
    skills: [{
      id: 'hear', name: 'Hear', description: 'Hears.', tags: ['ears'], examples: [],
      inputModes: [], outputModes: [], securityRequirements: [],
    }],
    securitySchemes: {}, securityRequirements: [], signatures: [],
  };
  const handler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Executor());
  app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: handler }));
  const options = { requestHandler: handler, userBuilder: UserBuilder.noAuthentication };
  app.use('/rpc', jsonRpcHandler(options));
  console.log(url);
});
