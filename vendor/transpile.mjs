/**
 * Part of `npm run build`: makes dist/ of src/ and dist-test/ of test/, file by file. Types become white space, so that
 * the line of a failure is the line of the source. `npm run lint` checks the types.
 *
 *   node vendor/transpile.mjs [--watch COMMAND…]
 *
 * Only changed sources are made again, and outputs whose source is gone are removed: after the first run it takes a
 * fraction of a second. With `--watch` it stays, and runs the command again after each change of src/ (`npm run dev`).
 */
import { spawn } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, watch, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileOfJoined, joinedNames, joinModules } from './join-modules.mjs'

const root = path.resolve(import.meta.dirname, '..')
const dist = path.join(root, 'dist')
/** Built by other steps: the AssemblyScript, and what browsers load. */
const builtElsewhere = /^(ingest\/scanner|apps\/dashboard)(\/|$)/
const trees = [
  { from: path.join(root, 'src'), to: dist, copiesOthers: false },
  { from: path.join(root, 'test'), to: path.join(root, 'dist-test'), copiesOthers: true },
]
/** A change of these makes every output again. */
const compilerFiles = ['vendor/transpile.mjs', 'vendor/join-modules.mjs', 'package-lock.json']

await joinModules()
const compilerMs = Math.max(...compilerFiles.map((file) => statSync(path.join(root, file)).mtimeMs))
await transpile()
if (process.argv[2] === '--watch') restartOnChange(process.argv.slice(3))

async function transpile() {
  const changed = trees.flatMap(staleOutputs)
  if (changed.length === 0) return
  const { default: blankTypes } = await import('ts-blank-space')
  const { transformSync } = await import('esbuild')
  for (const { source, target } of changed) {
    mkdirSync(path.dirname(target), { recursive: true })
    if (isScript(source)) writeFileSync(target, pointToOutputs(withoutTypes(source), target))
    else cpSync(source, target)
  }

  function withoutTypes(source) {
    const text = readFileSync(source, 'utf8')
    if (source.endsWith('.tsx')) return transformSync(text, { loader: 'tsx', jsx: 'automatic' }).code
    return blankTypes(text, (node) => {
      throw new Error(`${path.relative(root, source)}: types cannot be removed from ${node.getText()}`)
    })
  }
}

/** Returns the sources that changed, with their outputs, after removing the outputs whose source is gone. */
function staleOutputs({ from, to, copiesOthers }) {
  const sources = readdirSync(from, { recursive: true, encoding: 'utf8' })
    .filter((name) => from !== trees[0].from || !builtElsewhere.test(name))
    .filter((name) => copiesOthers || isScript(name))
    .map((name) => ({ source: path.join(from, name), target: path.join(to, name).replace(/\.tsx?$/, '.js') }))
    .filter(({ source }) => statSync(source).isFile())
  const list = path.join(to, '.transpiled.json')
  const previous = readIfExists(list)
  const targets = new Set(sources.map(({ target }) => target))
  for (const name of previous === null ? [] : JSON.parse(previous)) {
    const target = path.join(to, name)
    if (!targets.has(target)) rmSync(target, { force: true })
  }
  // Outputs of an earlier kind of build would otherwise stay.
  if (previous === null) for (const { target } of sources) rmSync(target, { force: true })
  mkdirSync(to, { recursive: true })
  writeFileSync(list, JSON.stringify([...targets].map((target) => path.relative(to, target))))
  return sources.filter(({ source, target }) => {
    const madeMs = statSync(target, { throwIfNoEntry: false })?.mtimeMs ?? 0
    return madeMs <= Math.max(statSync(source).mtimeMs, compilerMs)
  })
}

function isScript(name) {
  return /(?<!\.d)\.tsx?$/.test(name)
}

/** Imports of our own files name their outputs, imports of joined packages the joined file. */
function pointToOutputs(code, target) {
  const own = code.replace(
    /((?:\bfrom|\bimport|\bnew URL\(|\bimport\()\s*['"])(\.\.?\/[^'"\n]*)\.tsx?(?=['"])/g,
    (_, before, name) =>
      `${before}${target.startsWith(dist + path.sep) ? name : name.replace(/^((?:\.\.\/)+)src\//, '$1dist/')}.js`,
  )
  if (!target.startsWith(dist + path.sep)) return own
  return own.replace(/(\bfrom\s*)['"]([^.'"\n][^'"\n]*)['"]/g, (whole, before, name) => {
    if (!joinedNames.includes(name)) return whole
    const relative = path.relative(path.dirname(target), fileOfJoined(name))
    return `${before}'${relative.startsWith('.') ? relative : `./${relative}`}'`
  })
}

function readIfExists(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (error.code !== 'ENOENT') throw error
    return null
  }
}

/** One child at a time: a change ends it with SIGTERM, and starts the next one when it has ended. */
function restartOnChange([command, ...args]) {
  let child = null
  let isStopping = false
  let pending = null
  const start = () => {
    child = spawn(command, args, { cwd: root, stdio: 'inherit' })
    child.once('exit', (code) => {
      child = null
      if (isStopping) process.exit(code ?? 0)
      process.stderr.write(
        `dev: the program ended${code === null ? '' : ` with ${code}`}; waiting for a change\n`,
      )
    })
  }
  const restart = async () => {
    pending = null
    try {
      await transpile()
    } catch (error) {
      process.stderr.write(`dev: ${error.message}\n`)
      return
    }
    process.stderr.write('dev: restarting\n')
    if (child === null) return start()
    child.removeAllListeners('exit')
    child.once('exit', start)
    child.kill('SIGTERM')
  }
  for (const signal of ['SIGINT', 'SIGTERM'])
    process.on(signal, () => {
      isStopping = true
      if (child === null) process.exit(0)
      child.kill('SIGTERM')
    })
  watch(trees[0].from, { recursive: true }, (_, name) => {
    if (name === null || !isScript(name) || builtElsewhere.test(name)) return
    clearTimeout(pending)
    // An editor writes a file in several steps.
    pending = setTimeout(() => void restart(), 100)
  })
  start()
}
