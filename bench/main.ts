/**
 * `npm run bench [-- backfill ingest delivery beside cluster lanes listing parquet replica scale scanner written] [--program PATH] [--before PATH]`: speed of the built
 * daemon, each figure from a fresh data directory on this machine, with its own load generator beside it. Prints tables; asserts
 * nothing. `--program` names another build's bin/pipectl.js, to compare two with the same load and records; `--before` one
 * that is measured beside this one.
 */
import os from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { generator } from './load.ts'

const benches: Record<string, () => Promise<string>> = {
  backfill: async () => (await import('./backfill.ts')).benchBackfill(),
  ingest: async () => (await import('./ingest.ts')).benchIngest(),
  delivery: async () => (await import('./delivery.ts')).benchDelivery(),
  beside: async () => (await import('./beside.ts')).benchBeside(),
  cluster: async () => (await import('./cluster.ts')).benchCluster(),
  lanes: async () => (await import('./lanes.ts')).benchLanes(),
  listing: async () => (await import('./listing.ts')).benchListing(),
  parquet: async () => (await import('./parquet.ts')).benchParquet(),
  replica: async () => (await import('./replica.ts')).benchReplica(),
  scale: async () => (await import('./scale.ts')).benchScale(),
  scanner: async () => (await import('./scanner.ts')).benchScanner(),
  start: async () => (await import('./start.ts')).benchStart(),
  written: async () => (await import('./written.ts')).benchWritten(),
}

const { values, positionals } = parseArgs({
  options: { program: { type: 'string' }, before: { type: 'string' } },
  allowPositionals: true,
})
// Read when test/support/daemon.ts is imported, which every bench does later.
if (values.program !== undefined) process.env.PIPECTL_PROGRAM = path.resolve(values.program)
if (values.before !== undefined) process.env.BENCH_BEFORE = path.resolve(values.before)
const wanted = positionals.length > 0 ? positionals : Object.keys(benches)
const cpu = os.cpus()
console.log(
  `${new Date().toISOString().slice(0, 10)}, ${cpu.length} cores (${cpu[0]?.model.trim()}), ` +
    `${Math.round(os.totalmem() / 2 ** 30)} GiB, Node.js ${process.version}, load by ${generator} on the same machine\n`,
)
for (const name of wanted) {
  const bench = benches[name]
  if (bench === undefined) throw new Error(`no bench ${name}; there are ${Object.keys(benches).join(', ')}`)
  console.log(`${await bench()}\n`)
}
process.exit(0)
