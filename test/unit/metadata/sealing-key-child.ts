/** A process that makes or finds the sealing key the moment the file `go` appears: `data-dir go`. Prints it as hex. */
import { existsSync } from 'node:fs'
import { loadSealingKey } from '../../../src/metadata/sealing-key.ts'

const [dataDir, go] = process.argv.slice(2)
if (dataDir === undefined || go === undefined) throw new Error('two arguments expected')
console.log('ready')
// Spins: all of the processes should be at the same line in the same millisecond.
while (!existsSync(go));
const key = await loadSealingKey({ file: null, dataDir, create: true, env: {} })
console.log(key.toString('hex'))
