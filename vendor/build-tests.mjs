/**
 * Makes dist-test/ of test/: the same files as JavaScript, which import what `npm run build` made of src/. It comes before `tap`.
 *
 * A loader for TypeScript in each of 230 test files, and in the children that they start, costs one to two seconds of CPU
 * each; this takes two seconds for all of them. Types become white space, so that a failure's line is the line in test/.
 */
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { transformSync } from 'esbuild'
import blankTypes from 'ts-blank-space'

const root = path.resolve(import.meta.dirname, '..')
const from = path.join(root, 'test')
const to = path.join(root, 'dist-test')

rmSync(to, { recursive: true, force: true })
for (const file of readdirSync(from, { recursive: true, encoding: 'utf8' })) {
  const source = path.join(from, file)
  if (!statSync(source).isFile()) continue
  const target = path.join(to, file)
  mkdirSync(path.dirname(target), { recursive: true })
  if (/\.tsx?$/.test(file)) {
    writeFileSync(target.replace(/\.tsx?$/, '.js'), pointToBuilt(withoutTypes(source, file)))
  } else cpSync(source, target)
}

function withoutTypes(source, name) {
  const text = readFileSync(source, 'utf8')
  if (source.endsWith('.tsx')) return transformSync(text, { loader: 'tsx', jsx: 'automatic' }).code
  return blankTypes(text, (node) => {
    throw new Error(`${name}: cannot be made JavaScript by leaving out types: ${node.getText()}`)
  })
}

/** Names of our own files: `from '…'`, `import('…')` and `new URL('…', import.meta.url)`. */
function pointToBuilt(code) {
  return code.replace(
    /((?:\bfrom|\bimport|\bnew URL\(|\bimport\()\s*['"])(\.\.?\/[^'"\n]*)\.tsx?(?=['"])/g,
    (_, before, name) => `${before}${name.replace(/^((?:\.\.\/)+)src\//, '$1dist/')}.js`,
  )
}
