import { randomUUID } from 'node:crypto'
import t from 'tap'
import { newBoardMemory, WorkerBoard } from '../../../src/delivery/containment.ts'

t.test('what the worker marks is seen through the same memory, and nothing else', async (t) => {
  const memory = newBoardMemory()
  const worker = new WorkerBoard(memory)
  const main = new WorkerBoard(memory)
  t.strictSame([main.blamed, main.isStorageFailure, main.underWay()], [null, false, []])
  const [one, other] = [randomUUID(), randomUUID()]
  const endOne = worker.begin(one)
  const endOther = worker.begin(other)
  t.strictSame(main.underWay(), [one, other])
  endOne()
  endOne()
  t.strictSame(main.underWay(), [other])
  const again = worker.begin(one)
  t.strictSame(main.underWay().sort(), [one, other].sort(), 'a slot that was given back is used again')
  again()
  endOther()
  worker.blame(one)
  worker.storageFailed()
  t.strictSame([main.blamed, main.isStorageFailure, main.underWay()], [one, true, []])
})

t.test('more attempts than there are slots are not marked, and do no harm', async (t) => {
  const board = new WorkerBoard(newBoardMemory())
  const ends = Array.from({ length: 5000 }, () => board.begin(randomUUID()))
  const marked = board.underWay().length
  t.ok(marked < 5000)
  for (const end of ends) end()
  t.strictSame(board.underWay(), [])
  const id = randomUUID()
  board.begin(id)
  t.strictSame(board.underWay(), [id])
})
