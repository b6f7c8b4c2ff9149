/** The steps that a transform can have, and where its secret stands. Without schemas: programs and pages use it too. */

export const transformOps = ['rename', 'drop', 'keep', 'mask', 'constant', 'move'] as const
export type TransformOp = (typeof transformOps)[number]

/** Where its secret stands among a destination's secrets. */
export const maskSaltPlace = 'transform.mask_salt'
