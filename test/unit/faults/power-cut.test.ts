/** The replay of a power cut gives exactly the directories that a disk could hold. */
import t, { type Test } from 'tap'
import { dataModes } from '../../support/faults/disk-file.ts'
import { namePolicies } from '../../support/faults/disk-names.ts'
import { type Cut, type Image, imagesAfter, randomCut } from '../../support/faults/power-cut.ts'
import type { Call } from '../../support/faults/trace.ts'

const root = '/root'

function call(kind: Call['kind'], more: Partial<Call> & { name?: string; text?: string } = {}): Call {
  const { name = '', text, ...rest } = more
  const data = Buffer.from(text ?? '')
  const plain = { pid: 1, fd: -1, result: 0, offset: 0, second: '', truncates: false, created: false }
  return { kind, ...plain, path: `${root}/${name}`, data, written: data.length, ...rest }
}
const create = (name: string, fd: number) => call('create', { name, fd, result: fd, created: true })
const write = (fd: number, offset: number, text: string) =>
  call('write', { fd, offset, text, result: text.length })
const sync = (fd: number) => call('sync', { fd })
const openRoot = (fd: number) => call('open', { fd, result: fd, path: root })
const rename = (from: string, to: string) => call('rename', { name: from, second: `${root}/${to}` })

/** Every different image over many seeds, as text. */
function possible(calls: Call[], cut: Partial<Cut>, base: Image = new Map()): string[] {
  const seen = new Set<string>()
  for (let seed = 0; seed < 200; seed += 1) {
    const whole: Cut = { before: calls.length, data: 'all', names: 'journal', seed, ...cut }
    for (const { image } of imagesAfter(calls, root, [whole], base)) seen.add(shown(image))
  }
  return [...seen].sort()
}

function shown(image: Image): string {
  const parts = [...image].map(([name, content]) => `${name}=${content === null ? '/' : content.toString()}`)
  return parts.sort().join(' ').replaceAll('\0', '.')
}

// File and directory synced, then A written and synced, B written and not.
const tiny = [create('f', 3), write(3, 0, 'A'), sync(3), openRoot(4), sync(4), write(3, 1, 'B')]

t.test('what is synced is there, what is not may be', (t) => {
  t.same(possible(tiny, { data: 'none' }), ['f=A'])
  t.same(possible(tiny, { data: 'all' }), ['f=AB'])
  for (const data of ['prefix', 'subset', 'torn512', 'torn4096'] as const)
    t.same(possible(tiny, { data, names: 'subset' }), ['f=A', 'f=AB'], data)
  for (const data of ['zeroed', 'mixed'] as const)
    t.same(possible(tiny, { data }), ['f=A', 'f=A.', 'f=AB'], data)
  t.same(possible(tiny, { before: 2, data: 'none', names: 'journal' }), ['', 'f='])
  t.end()
})

t.test('zeros come only where a file has grown', (t) => {
  const calls = [create('f', 3), write(3, 0, 'AB'), sync(3), openRoot(4), sync(4), write(3, 1, 'CD')]
  t.same(possible(calls, { data: 'zeroed' }), ['f=AB', 'f=AB.', 'f=ACD'])
  t.end()
})

t.test('unsynced writes: a prefix keeps their order, a subset does not', (t) => {
  const calls = [create('f', 3), sync(3), write(3, 0, 'A'), write(3, 1, 'B'), write(3, 2, 'C')]
  t.same(possible(calls, { data: 'prefix' }), ['f=', 'f=A', 'f=AB', 'f=ABC'])
  const subsets = ['f=', 'f=A', 'f=.B', 'f=..C', 'f=AB', 'f=A.C', 'f=.BC', 'f=ABC']
  t.same(possible(calls, { data: 'subset' }), subsets.sort())
  t.end()
})

t.test('the prefix is one moment for all files', (t) => {
  const calls = [
    create('f', 3),
    create('g', 5),
    sync(3),
    write(3, 0, 'A'),
    write(5, 0, 'B'),
    write(3, 1, 'C'),
  ]
  t.same(possible(calls, { data: 'prefix' }), ['f= g=', 'f=A g=', 'f=A g=B', 'f=AC g=B'].sort())
  t.end()
})

t.test('a torn write keeps any of its sectors, at the boundaries of the disk', (t) => {
  const calls = [create('f', 3), sync(3), write(3, 500, 'x'.repeat(524))]
  const lengths = (data: Cut['data']) =>
    possible(calls, { data }).map((text) => `${text.length - 2} ${text.split('x').length - 1}`)
  t.same(lengths('torn512').sort(), ['0 0', '1024 512', '1024 524', '512 12'].sort())
  t.same(lengths('torn4096').sort(), ['0 0', '1024 524'].sort())
  t.end()
})

t.test('a truncation is a change like any other', (t) => {
  const calls = [create('f', 3), write(3, 0, 'ABC'), sync(3), call('truncate', { fd: 3, offset: 1 })]
  t.same(possible(calls, { data: 'subset' }), ['f=A', 'f=ABC'])
  t.end()
})

t.test('after a failed sync, later syncs do not bring the data to the disk', (t) => {
  const failed = call('sync', { fd: 3, result: -5 })
  const calls = [create('f', 3), sync(3), write(3, 0, 'A'), failed, write(3, 1, 'B'), sync(3)]
  t.same(possible(calls, { data: 'none' }), ['f=.B'])
  t.same(possible(calls, { data: 'subset' }), ['f=.B', 'f=AB'])
  t.end()
})

t.test('names: each policy loses what it may and nothing that is synced', (t) => {
  // A rename, synced; then two new files; the second is synced, the directory is not.
  const start = [create('new', 3), openRoot(4), rename('new', 'kept'), sync(4)]
  const calls = [...start, create('a', 5), create('b', 6), sync(6)]
  t.same(possible(calls, { names: 'journal' }), ['a= b= kept='])
  t.same(possible(calls, { names: 'posix' }), ['a= b= kept=', 'a= kept=', 'kept='])
  t.same(possible(calls, { names: 'subset' }), ['a= b= kept=', 'a= kept=', 'b= kept=', 'kept='].sort())
  t.end()
})

t.test('names: an unlink that is not synced can be undone, a rename is whole or not at all', (t) => {
  const base: Image = new Map([
    ['gone', Buffer.from('G')],
    ['old', Buffer.from('O')],
  ])
  const calls = [call('unlink', { name: 'gone' }), rename('old', 'young')]
  t.same(possible(calls, { names: 'posix' }, base), ['gone=G old=O', 'old=O', 'young=O'])
  t.same(
    possible(calls, { names: 'subset' }, base),
    ['gone=G old=O', 'old=O', 'young=O', 'gone=G young=O'].sort(),
  )
  t.end()
})

t.test('names: a file in a new directory goes with the directory', (t) => {
  const made = [
    call('mkdir', { name: 'd' }),
    create('d/f', 3),
    call('open', { name: 'd', fd: 4, result: 4 }),
    sync(4),
  ]
  t.same(possible(made, { names: 'posix' }), ['', 'd/f= d=/'])
  t.same(possible(made, { names: 'journal' }), ['d/f= d=/'])
  t.end()
})

t.test('a cut is repeated by its seed, and many seeds reach every mode and policy', (t) => {
  const cuts = Array.from({ length: 200 }, (_, seed) => randomCut(seed, tiny.length))
  t.same(cuts[7], randomCut(7, tiny.length))
  t.equal(new Set(cuts.map(({ data }) => data)).size, dataModes.length)
  t.equal(new Set(cuts.map(({ names }) => names)).size, namePolicies.length)
  t.equal(new Set(cuts.map(({ before }) => before)).size, tiny.length + 1)
  repeats(t, cuts)
  t.end()
})

function repeats(t: Test, cuts: Cut[]): void {
  const shownTwice = [1, 2].map(() => [...imagesAfter(tiny, root, cuts)].map(({ image }) => shown(image)))
  t.same(shownTwice[0], shownTwice[1])
}

t.test('control: leaving the sync out of the record loses what was synced', (t) => {
  const lying = tiny.filter(({ kind, fd }) => kind !== 'sync' || fd !== 3)
  t.ok(possible(lying, { data: 'none' }).every((text) => !text.includes('A')))
  t.end()
})
