/** A port that has many methods is several ports: every implementation of it has to do everything. */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import ts from 'typescript'

const root = new URL('../../src/', import.meta.url).pathname
const maxMethods = 10

/** No ports: nothing implements them a second time. */
const noPorts = [
  // One method per log line.
  'delivery/lane-log.ts: LaneLog',
  // The used part of a library's object.
  'destinations/mysql/connection.ts: MysqlConnection',
  'api/http/uws/binding.ts: UwsResponse',
]

/** The methods of each interface in a source, without those that it inherits. */
function methodsOf(file: string, text: string): [name: string, methods: number][] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest)
  return source.statements
    .filter((statement) => ts.isInterfaceDeclaration(statement))
    .map(({ name, members }) => [`${file}: ${name.text}`, members.filter(isMethod).length])
}

function isMethod(member: ts.TypeElement): boolean {
  return ts.isMethodSignature(member)
}

const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
const interfaces = files.flatMap((file) => methodsOf(file, readFileSync(path.join(root, file), 'utf8')))

t.test(`no interface has more than ${maxMethods} methods`, async (t) => {
  t.strictSame(
    interfaces.filter(([name, methods]) => methods > maxMethods && !noPorts.includes(name)),
    [],
  )
})

t.test('negative control: the widest ports are counted', async (t) => {
  const known = new Map(interfaces)
  t.equal(known.get('log/buffer.ts: BufferReader'), 10)
  t.equal(known.get('metadata/pipe-parked-port.ts: PipeParkedReplays'), 4)
  const wide = Array.from({ length: 11 }, (_, index) => `m${index}(): void`).join('\n')
  t.strictSame(methodsOf('x.ts', `interface Wide { ${wide} }`), [['x.ts: Wide', 11]])
})
