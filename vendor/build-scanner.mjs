/**
 * Part of `npm run build`: src/ingest/scanner, which is AssemblyScript, to dist/ingest/scanner.wasm. The compiler takes seconds,
 * so what is newer than its sources is left as it is.
 */
import { mkdirSync, readdirSync, statSync } from 'node:fs'
import path from 'node:path'

const root = path.resolve(import.meta.dirname, '..')
const sources = path.join(root, 'src', 'ingest', 'scanner')
const target = path.join(root, 'dist', 'ingest', 'scanner.wasm')

if (!isUpToDate()) await compile()

function isUpToDate() {
  const made = statSync(target, { throwIfNoEntry: false })?.mtimeMs ?? 0
  const inputs = readdirSync(sources).map((file) => path.join(sources, file))
  // The version of the compiler is pinned in package.json.
  inputs.push(path.join(root, 'package.json'), import.meta.filename)
  return inputs.every((input) => statSync(input).mtimeMs < made)
}

async function compile() {
  const asc = await import('assemblyscript/asc').catch((error) => {
    if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error
    fail('assemblyscript is not installed, or not in the version of package.json: run npm install.')
  })
  mkdirSync(path.dirname(target), { recursive: true })
  const { error, stderr } = await asc.main([
    path.join(sources, 'scan.ts'),
    ...['--outFile', target],
    ...['-O3', '--converge', '--noAssert'],
    // Its memory comes from the one who opens it, with the bound of that thread. Nothing is allocated in it.
    ...['--importMemory', '--runtime', 'stub', '--use', 'abort='],
    ...['--enable', 'simd'],
  ])
  if (error !== null) fail(`${stderr.toString()}\n${error.message}`)
}

function fail(message) {
  process.stderr.write(`${message}\n`)
  process.exit(1)
}
