-- A limit of zero: nothing passes, nothing is stored.
local function closed()
  local it = { never = true }
  function it.read() return 0, 0, 0 end
  function it.take() return false end
  function it.deny() end
  function it.give() end
  return it
end

-- The algorithms, by the number that a rule begins with. Created when they are needed: a call has
-- one or two of them, and creating the unneeded ones would take as long as deciding.
local MAKERS = { [0] = closed, fixed_window, sliding_window, sliding_log, token_bucket }
local made = {}

local function algorithm(kind)
  local it = made[kind]
  if not it then
    it = MAKERS[kind]()
    made[kind] = it
  end
  return it
end

-- What a log reports: three numbers for each request.
local told = {}

-- A state in three parts: nil if it is not one of ours.
local function read(it, rule, value)
  if value then return it.read(rule, value) end
  if it.fresh then return it.fresh() end
  return 0, 0, 0
end
