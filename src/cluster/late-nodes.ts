/**
 * Which nodes answer reads late. A read waits for a node for at most `answerWithinMs`. One that has not answered by then is not waited for
 * again until it answers, so that a node that is lost holds up one screen and not each of them.
 *
 *   prompt ──no answer in time──▶ late ──the answer, or that to a probe, arrives──▶ prompt
 *                                   └──it owns no pipe any more──▶ forgotten
 */
import { endsWithin } from '../platform/deadline.ts'

const answerWithinMs = 1_000

export class LateNodes {
  readonly #late = new Set<string>()
  readonly #probed = new Set<string>()

  isLate(node: string): boolean {
    return this.#late.has(node)
  }

  /** Undefined: the node is late, or has become so. Rejects as `ask` does. */
  async read<T>(node: string, ask: () => Promise<T>): Promise<T | undefined> {
    if (this.#late.has(node)) return undefined
    const asked = ask()
    if (await endsWithin(answerWithinMs, asked)) return await asked
    this.#late.add(node)
    this.#awaitAnswer(node, asked)
    return undefined
  }

  /** Once a second. `owners`: the nodes that own pipes now. */
  async probe(
    owners: () => Promise<ReadonlySet<string>>,
    ask: (node: string) => Promise<unknown>,
  ): Promise<void> {
    if (this.#late.size === 0) return
    const known = await owners()
    for (const node of this.#late) {
      if (!known.has(node)) this.#late.delete(node)
      else if (!this.#probed.has(node)) {
        this.#probed.add(node)
        this.#awaitAnswer(
          node,
          ask(node).finally(() => this.#probed.delete(node)),
        )
      }
    }
  }

  #awaitAnswer(node: string, asked: Promise<unknown>): void {
    asked.then(
      () => this.#late.delete(node),
      () => {},
    )
  }
}
