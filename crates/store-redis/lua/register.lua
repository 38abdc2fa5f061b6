-- A limit of zero: nothing passes, nothing is kept.
local closed = { never = true }
function closed.read() return 0, 0, 0 end
function closed.take() return false end
function closed.deny() end
function closed.give() end

-- A value that is none of ours: nobody passes, and it stays as it is.
local damaged = closed

local ALGORITHMS = { [0] = closed, fixed_window, sliding_window, sliding_log, token_bucket }
