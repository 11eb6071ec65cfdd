// Drive wap with version 2 of the TypeScript client; print what it saw as JSON. driver.py does the same in Python.
//   node driver.mjs FOLDER-OF-NODE-MODULES MODE
// MODE is "legacy" or "auto", the client's way to choose a version. Standard input holds what driver.py reads.
import { existsSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { connect as dial, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const [modules, mode] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${modules}/@modelcontextprotocol/client/dist/${path}`).href);
const { Client, StreamableHTTPClientTransport } = await load("index.mjs");
const { StdioClientTransport } = await load("stdio.mjs");
const { version: sdk } = JSON.parse(readFileSync(`${modules}/@modelcontextprotocol/client/package.json`, "utf8"));

const input = readFileSync(0, "utf8");
const { upstream } = JSON.parse(input);

// A proxy that cuts every connection on demand.
const sockets = new Set();
const proxy = createServer((down) => {
  const up = dial(upstream, "127.0.0.1");
  for (const [one, other] of [[down, up], [up, down]]) {
    sockets.add(one);
    one.pipe(other);
    one.on("error", () => {});
    one.on("close", () => sockets.delete(one) && other.destroy());
  }
});
if (upstream) await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
const way = JSON.parse(upstream ? input.replaceAll("$PORT", proxy.address().port) : input);
const cut = () => {
  const count = sockets.size;
  for (const socket of [...sockets]) socket.resetAndDestroy();
  return count;
};

async function connect(answer) {
  const capabilities = answer ? { elicitation: {} } : {};
  const client = new Client({ name: "typescript", version: "2" }, { capabilities, versionNegotiation: { mode } });
  if (answer) client.setRequestHandler("elicitation/create", answer);
  const headers = { Authorization: `Bearer ${way.token}` };
  const { command, args, env } = way;
  const transport = way.url
    ? new StreamableHTTPClientTransport(new URL(way.url), { requestInit: { headers } })
    : new StdioClientTransport({ command, args, env, stderr: "inherit" });
  await client.connect(transport);
  return client;
}

const shell = (script) => ({ command: "sh", args: ["-c", script] });
const read = (result) => ({ isError: Boolean(result.isError), told: JSON.parse(result.content[0].text) });
const call = async (client, name, args) => read(await client.callTool({ name, arguments: args }));

// Start a command, and wait until it has reported progress. The call itself is in an object, or it would be awaited.
async function begin(client, script, options = {}) {
  let hear;
  const begun = new Promise((resolve) => (hear = resolve));
  const onprogress = (note) => note.message?.includes("begun") && hear();
  const pending = client.callTool({ name: "runCommand", arguments: shell(script) }, { ...options, onprogress });
  pending.catch(() => {});
  await Promise.race([begun, pending]);
  return { pending };
}

const client = await connect();
const seen = { server: client.getServerVersion().name, version: client.getNegotiatedProtocolVersion() };
const isSession = seen.version < "2026";
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);

const written = await call(client, "writeFile", { path: "a.txt", contents: "one\n" });
const file = await call(client, "readFile", { path: "a.txt" });
const missing = await call(client, "readFile", { path: "missing.txt" });
seen.called = [written.isError, file.isError, file.told.content];
seen.failed = [missing.isError, missing.told.error.data.code];

const uri = pathToFileURL(`${way.root}/a.txt`).href;
const listed = (await client.listResources()).resources.some((one) => one.uri === uri);
const [{ text }] = (await client.readResource({ uri })).contents;
const updated = new Promise((resolve) => client.setNotificationHandler("notifications/resources/updated", (note) => resolve(note.params.uri)));
const subscription = isSession ? await client.subscribeResource({ uri }) : await client.listen({ resourceSubscriptions: [uri] });
await call(client, "writeFile", { path: "a.txt", contents: "two\n" });
seen.resources = [listed, text, (await updated) === uri];
if (!isSession) await subscription.close();

const abort = new AbortController();
await begin(client, "echo $$ >pid; echo begun; sleep 1000", { signal: abort.signal });
seen.progress = true;
const command = `/proc/${readFileSync(`${way.root}/pid`, "utf8").trim()}`;
const wasThere = existsSync(command);
abort.abort("enough");
while (existsSync(command)) await sleep(10); // the test ends this program if the command stays
seen.cancelled = [wasThere, existsSync(command), (await call(client, "getWorkspaceInfo", {})).told.root];

// From 2026-07-28 on a request ends with its connection.
if (upstream && isSession) {
  const { pending } = await begin(client, "echo begun; until [ -e go ]; do sleep 0.01; done; echo resumed");
  const count = cut();
  writeFileSync(`${way.root}/go`, "");
  seen.resumed = [count > 0, read(await pending).told.stdout];
}
await client.close();

for (const agrees of [true, false]) {
  const prompts = [];
  const policy = `${way.root}/.cws-policy.json`;
  writeFileSync(policy, '{"confirmationRequired": ["runCommand"]}');
  const asked = await connect(async (request) => {
    prompts.push(request.params.message);
    return agrees ? { action: "accept", content: { confirm: true } } : { action: "decline" };
  });
  const ran = await call(asked, "runCommand", { command: "echo", args: ["hi"] });
  await asked.close();
  unlinkSync(policy);
  const outcome = ran.isError ? ran.told.error.data.code : ran.told.stdout;
  seen[agrees ? "agreed" : "declined"] = [outcome, prompts.map((prompt) => prompt.includes("echo hi"))];
}
process.stdout.write(JSON.stringify({ sdk, seen }));
process.exit(0);
